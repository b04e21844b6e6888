package tollgate

import (
	"reflect"
	"testing"
)

func TestDetailsAreListedInWords(t *testing.T) {
	got := Details(struct {
		PurchaseOrder string `json:"purchaseOrder,omitzero" max:"64" help:"Whose."`
		Seats         int    `json:"seats,omitzero" max:"0" help:""`
	}{PurchaseOrder: "PO-7"})
	want := []Detail{
		{Name: "purchaseOrder", Label: "Purchase order", Help: "Whose.", Value: "PO-7", Max: 64},
		{Name: "seats", Label: "Seats", Number: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
