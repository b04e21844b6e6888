package billing

import "tollgate/engine/wire"

// feature is one feature of a catalog. It never changes: a new document replaces it under the same
// number.
type feature struct {
	number   uint32
	id       [16]byte
	document FeatureDocument
	archived bool
}

func (f *feature) view() FeatureView {
	d := &f.document
	return FeatureView{
		ID: f.id, Key: d.Key, Name: d.Name, Description: d.Description, Labels: d.Labels,
		HasCost: d.HasCost, CostPerUnit: d.CostPerUnit, Archived: f.archived,
	}
}

// featureRecord is a feature in a snapshot.
type featureRecord struct {
	ID       [16]byte
	Document FeatureDocument
	Archived bool
}

// Fields states the record's fields.
func (r *featureRecord) Fields(w *wire.Codec) {
	w.ID(1, &r.ID)
	w.Message(2, &r.Document)
	w.Bool(3, &r.Archived)
}
