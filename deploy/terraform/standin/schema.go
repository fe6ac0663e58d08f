package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// resourceSchemas is what the resources take. Names, types and what is required are
// those of hashicorp/aws 6.62.0; arguments that are not used here may be missing,
// so that the stand-in refuses more than the provider does and never less.
func resourceSchemas() map[string]*tfprotov6.Schema {
	return map[string]*tfprotov6.Schema{
		"aws_vpc": schema(`
			arn string computed
			assign_generated_ipv6_cidr_block bool optional
			cidr_block string optional computed
			enable_dns_hostnames bool optional computed
			enable_dns_support bool optional
			id string optional computed
			instance_tenancy string optional
			region string optional computed
			tags map optional`),
		"aws_subnet": schema(`
			arn string computed
			availability_zone string optional computed
			cidr_block string optional
			id string optional computed
			map_public_ip_on_launch bool optional
			region string optional computed
			tags map optional
			vpc_id string required`),
		"aws_internet_gateway": schema(`
			arn string computed
			id string optional computed
			region string optional computed
			tags map optional
			vpc_id string optional computed`),
		"aws_route_table": schema(`
			arn string computed
			id string optional computed
			region string optional computed
			tags map optional
			vpc_id string required`),
		"aws_route": schema(`
			destination_cidr_block string optional
			gateway_id string optional
			id string optional computed
			region string optional computed
			route_table_id string required`),
		"aws_route_table_association": schema(`
			gateway_id string optional
			id string optional computed
			region string optional computed
			route_table_id string required
			subnet_id string optional`),
		"aws_security_group": schema(`
			arn string computed
			description string optional
			id string optional computed
			name string optional computed
			name_prefix string optional computed
			region string optional computed
			revoke_rules_on_delete bool optional
			tags map optional
			vpc_id string optional computed`),
		"aws_vpc_security_group_ingress_rule": rule(),
		"aws_vpc_security_group_egress_rule":  rule(),
		"aws_key_pair": schema(`
			arn string computed
			id string optional computed
			key_name string optional computed
			key_name_prefix string optional computed
			public_key string required
			region string optional computed
			tags map optional`),
		"aws_placement_group": schema(`
			arn string computed
			id string optional computed
			name string required
			partition_count number optional computed
			placement_group_id string computed
			region string optional computed
			spread_level string optional computed
			strategy string required
			tags map optional`),
		"aws_instance": schema(`
			ami string optional computed
			arn string computed
			associate_public_ip_address bool optional computed
			availability_zone string optional computed
			disable_api_termination bool optional computed
			ebs_optimized bool optional computed
			id string optional computed
			instance_initiated_shutdown_behavior string optional computed
			instance_state string computed
			instance_type string optional computed
			key_name string optional computed
			monitoring bool optional computed
			placement_group string optional computed
			private_dns string computed
			private_ip string optional computed
			public_dns string computed
			public_ip string computed
			region string optional computed
			source_dest_check bool optional
			subnet_id string optional computed
			tags map optional
			tenancy string optional computed
			user_data string optional computed
			user_data_base64 string optional computed
			user_data_replace_on_change bool optional
			vpc_security_group_ids set optional computed`,
			block("metadata_options", tfprotov6.SchemaNestedBlockNestingModeList, `
				http_endpoint string optional
				http_put_response_hop_limit number optional
				http_tokens string optional
				instance_metadata_tags string optional`),
			block("root_block_device", tfprotov6.SchemaNestedBlockNestingModeList, `
				delete_on_termination bool optional
				encrypted bool optional
				iops number optional
				throughput number optional
				volume_size number optional
				volume_type string optional`)),
	}
}

// rule is the schema that ingress and egress rules share.
func rule() *tfprotov6.Schema {
	return schema(`
		arn string computed
		cidr_ipv4 string optional
		cidr_ipv6 string optional
		description string optional
		from_port number optional
		id string computed
		ip_protocol string required
		prefix_list_id string optional
		referenced_security_group_id string optional
		region string optional computed
		security_group_id string required
		security_group_rule_id string computed
		tags map optional
		to_port number optional`)
}

func dataSchemas() map[string]*tfprotov6.Schema {
	return map[string]*tfprotov6.Schema{
		"aws_availability_zones": schema(`
			id string optional computed
			names list computed
			region string optional computed
			state string optional
			zone_ids list computed`),
		"aws_ec2_instance_type": schema(`
			default_vcpus number computed
			id string optional computed
			instance_type string required
			network_performance string computed
			region string optional computed
			supported_architectures list computed`),
		"aws_ami": schema(`
			architecture string computed
			arn string computed
			id string optional computed
			image_id string computed
			most_recent bool optional
			name string computed
			name_regex string optional
			owners list optional
			region string optional computed`,
			block("filter", tfprotov6.SchemaNestedBlockNestingModeSet, `
				name string required
				values set required`)),
	}
}

// schema reads a table of one attribute a line: its name, type and modes. The
// tables are constants of this file, so what is wrong with one is a panic.
func schema(table string, blocks ...*tfprotov6.SchemaNestedBlock) *tfprotov6.Schema {
	return &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: attributes(table), BlockTypes: blocks}}
}

func block(name string, nesting tfprotov6.SchemaNestedBlockNestingMode, table string) *tfprotov6.SchemaNestedBlock {
	return &tfprotov6.SchemaNestedBlock{TypeName: name, Nesting: nesting, Block: &tfprotov6.SchemaBlock{Attributes: attributes(table)}}
}

func attributes(table string) []*tfprotov6.SchemaAttribute {
	types := map[string]tftypes.Type{
		"string": tftypes.String,
		"number": tftypes.Number,
		"bool":   tftypes.Bool,
		"map":    tftypes.Map{ElementType: tftypes.String},
		"list":   tftypes.List{ElementType: tftypes.String},
		"set":    tftypes.Set{ElementType: tftypes.String},
	}
	var list []*tfprotov6.SchemaAttribute
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 3 || types[fields[1]] == nil {
			panic(fmt.Sprintf("schema: unknown attribute %q", line))
		}
		a := &tfprotov6.SchemaAttribute{Name: fields[0], Type: types[fields[1]]}
		for _, mode := range fields[2:] {
			switch mode {
			case "required":
				a.Required = true
			case "optional":
				a.Optional = true
			case "computed":
				a.Computed = true
			default:
				panic(fmt.Sprintf("schema: %q has an unknown mode", line))
			}
		}
		list = append(list, a)
	}
	return list
}
