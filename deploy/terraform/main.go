// Terraform-provider-tollgate keeps what the owner of a product declares (the catalog, budgets,
// webhook endpoints) as a configuration of Terraform or OpenTofu says it. Its manual is
// docs/guides/terraform.md.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

// address is what configurations call the provider by.
const address = "registry.terraform.io/tollgate/tollgate"

func main() {
	err := providerserver.Serve(context.Background(), newProvider,
		providerserver.ServeOpts{Address: address})
	if err != nil {
		log.Fatal(err)
	}
}
