package billing

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
	ID       [16]byte        `wire:"1"`
	Document FeatureDocument `wire:"2"`
	Archived bool            `wire:"3"`
}
