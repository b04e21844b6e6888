package tollgate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	tollgate "tollgate/sdk/go"
)

func Example() {
	c, err := tollgate.New([]string{"127.0.0.1:8080", "127.0.0.1:8081"}, "sk_test_…", 10)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	id, err := c.CreateCustomer(ctx, tollgate.CustomerRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CreateSubscription(ctx, tollgate.SubscriptionRequest{
		PlanID: "team", CustomerReferenceID: id,
	})
	if err != nil {
		log.Fatal(err)
	}
	for invoice, err := range c.Invoices(ctx, id, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(invoice.Number, invoice.Amount, invoice.Currency)
	}
}
