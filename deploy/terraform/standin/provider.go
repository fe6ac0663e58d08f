package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// provider answers the calls of validate and plan. The others are those of the
// interface inside it, which is nil: one that Terraform should make beyond
// these ends the process, and the plan with it.
type provider struct{ tfprotov6.ProviderServer }

func (*provider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		Provider:          schema("region string optional\nprofile string optional"),
		ResourceSchemas:   resourceSchemas(),
		DataSourceSchemas: dataSchemas(),
	}, nil
}

func (*provider) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (
	*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (*provider) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (
	*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (*provider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (*provider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

// ValidateResourceConfig looks at what the schema cannot say: names and values
// that AWS would refuse only while it creates.
func (*provider) ValidateResourceConfig(_ context.Context, r *tfprotov6.ValidateResourceConfigRequest) (
	*tfprotov6.ValidateResourceConfigResponse, error) {
	answer := &tfprotov6.ValidateResourceConfigResponse{}
	values, err := unpack(resourceSchemas()[r.TypeName], r.Config)
	if err != nil {
		return nil, err
	}
	allowed := map[string]map[string][]string{
		"aws_placement_group": {"strategy": {"cluster", "partition", "spread"}},
		"aws_instance":        {"instance_initiated_shutdown_behavior": {"stop", "terminate"}, "tenancy": {"default", "dedicated", "host"}},
	}
	for name, words := range allowed[r.TypeName] {
		value := values[name]
		if value.IsNull() || !value.IsKnown() {
			continue
		}
		var is string
		if err := value.As(&is); err != nil {
			return nil, err
		}
		if !strings.Contains(" "+strings.Join(words, " ")+" ", " "+is+" ") {
			answer.Diagnostics = append(answer.Diagnostics, &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError,
				Summary:  fmt.Sprintf("expected %s to be one of %q, got %s", name, words, is),
			})
		}
	}
	return answer, nil
}

func (*provider) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (
	*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

// PlanResourceChange says of every computed attribute that the configuration
// leaves open that it is known after the creation.
func (*provider) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse,
	error) {
	s := resourceSchemas()[r.TypeName]
	values, err := unpack(s, r.ProposedNewState)
	if err != nil {
		return nil, err
	}
	for _, a := range s.Block.Attributes {
		if a.Computed && values[a.Name].IsNull() {
			values[a.Name] = tftypes.NewValue(a.Type, tftypes.UnknownValue)
		}
	}
	planned, err := pack(s, values)
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (*provider) ReadDataSource(_ context.Context, r *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	s := dataSchemas()[r.TypeName]
	values, err := unpack(s, r.Config)
	if err != nil {
		return nil, err
	}
	text := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	list := func(words ...string) tftypes.Value {
		var items []tftypes.Value
		for _, word := range words {
			items = append(items, text(word))
		}
		return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, items)
	}
	switch r.TypeName {
	case "aws_availability_zones":
		values["names"], values["zone_ids"] = list("standin-1a", "standin-1b"), list("si1-az1", "si1-az2")
	case "aws_ec2_instance_type":
		var name string
		if err := values["instance_type"].As(&name); err != nil {
			return nil, err
		}
		vcpus, architecture, err := shape(name)
		if err != nil {
			return &tfprotov6.ReadDataSourceResponse{Diagnostics: []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError,
				Summary: err.Error()}}}, nil
		}
		values["default_vcpus"] = tftypes.NewValue(tftypes.Number, vcpus)
		values["supported_architectures"] = list(architecture)
		values["network_performance"] = text(networkOf(name))
	case "aws_ami":
		values["id"] = text("ami-00000000000000000")
	}
	state, err := pack(s, values)
	return &tfprotov6.ReadDataSourceResponse{State: state}, err
}

// networkOf is what AWS says of a type's link.
func networkOf(name string) string {
	switch name {
	case "c6i.4xlarge":
		return "Up to 12.5 Gigabit"
	case "c6i.8xlarge":
		return "12.5 Gigabit"
	case "c6in.8xlarge", "c8i.32xlarge":
		return "50 Gigabit"
	case "c6in.16xlarge":
		return "100 Gigabit"
	case "c7gn.16xlarge", "c8gn.16xlarge":
		return "200 Gigabit"
	}
	return "Up to 25 Gigabit"
}

// shape derives from a type's name what AWS would say of it: 4 vCPUs for each
// xlarge, and arm64 where a g stands behind the generation. That holds for the
// families c, m and r since the sixth generation, but for the metal ones.
func shape(name string) (vcpus int, architecture string, err error) {
	family, size, ok := strings.Cut(name, ".")
	if !ok || len(family) < 3 || !strings.ContainsAny(family[:1], "cmr") {
		return 0, "", fmt.Errorf("the stand-in does not know the instance type %q", name)
	}
	architecture = "x86_64"
	if strings.Contains(family[2:], "g") {
		architecture = "arm64"
	}
	switch times, ok := strings.CutSuffix(size, "xlarge"); {
	case size == "large":
		vcpus = 2
	case size == "xlarge":
		vcpus = 4
	case ok:
		n, err := strconv.Atoi(times)
		if err != nil {
			return 0, "", fmt.Errorf("the stand-in does not know the size %q", size)
		}
		vcpus = 4 * n
	default:
		return 0, "", fmt.Errorf("the stand-in does not know the size %q", size)
	}
	return vcpus, architecture, nil
}

func unpack(s *tfprotov6.Schema, v *tfprotov6.DynamicValue) (map[string]tftypes.Value, error) {
	if s == nil {
		return nil, fmt.Errorf("no such type")
	}
	value, err := v.Unmarshal(s.ValueType())
	if err != nil {
		return nil, err
	}
	values := map[string]tftypes.Value{}
	return values, value.As(&values)
}

func pack(s *tfprotov6.Schema, values map[string]tftypes.Value) (*tfprotov6.DynamicValue, error) {
	v, err := tfprotov6.NewDynamicValue(s.ValueType(), tftypes.NewValue(s.ValueType(), values))
	return &v, err
}
