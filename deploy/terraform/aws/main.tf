resource "aws_key_pair" "admin" {
  key_name   = var.name
  public_key = var.public_key
}

# cluster: machines near each other in one network segment. A single connection
# has 10 Gbit/s there, 5 outside of it, and fewer hops.
resource "aws_placement_group" "near" {
  name     = var.name
  strategy = "cluster"
}

resource "aws_instance" "machine" {
  for_each = local.machines

  ami                         = data.aws_ami.debian[local.machine_types[each.value.type].arch].id
  instance_type               = data.aws_ec2_instance_type.used[each.value.type].instance_type
  placement_group             = each.value.role == "controller" ? null : aws_placement_group.near.name
  subnet_id                   = aws_subnet.group.id
  vpc_security_group_ids      = [aws_security_group.group.id]
  associate_public_ip_address = true
  key_name                    = aws_key_pair.admin.key_name

  # The machine's own timer switches it off, and off is gone: no disk, no bill.
  instance_initiated_shutdown_behavior = "terminate"
  user_data_replace_on_change          = true
  user_data                            = templatefile("${path.module}/user-data.sh.tftpl", { max_minutes = var.max_minutes })

  metadata_options {
    http_tokens = "required"
  }

  root_block_device {
    volume_type           = "gp3"
    volume_size           = 16
    encrypted             = true
    delete_on_termination = true
  }

  tags = {
    Name = "${var.name}-${each.key}"
    role = each.value.role
  }

  depends_on = [aws_route.out]
}
