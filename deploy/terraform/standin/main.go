// Command standin answers Terraform in the place of the AWS provider, as far as
// a plan needs it: it knows the arguments and types of the resources that
// ../aws uses, plans their creation, and creates nothing. With it `terraform
// plan` holds references, counts, types and validations against each other
// without an account and without the network.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

func main() {
	err := tf6server.Serve("registry.terraform.io/hashicorp/aws", func() tfprotov6.ProviderServer { return &provider{} })
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}
