//go:build linux

package sys

import "testing"

const mountText = `21 27 0:20 / /sys rw,nosuid - sysfs sysfs rw
27 1 0:24 /root / rw,relatime shared:1 - btrfs /dev/sda2 rw,subvol=/root
90 27 0:51 / /mnt/a\040b rw - nfs4 files:/a\040b rw,vers=4.2
95 27 0:57 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/up\040per,workdir=/w
`

func TestMountOf(t *testing.T) {
	for minor, want := range map[uint32]Mount{
		24: {Kind: "btrfs", Source: "/dev/sda2"}, 51: {Kind: "nfs4", Source: "files:/a b"},
		57: {Kind: "overlay", Source: "overlay", Upper: "/var/lib/up per"},
	} {
		if got, ok := MountOf([]byte(mountText), 0, minor); !ok || got != want {
			t.Errorf("0:%d: %+v, want %+v", minor, got, want)
		}
	}
	for _, minor := range []uint32{2, 240, 5} {
		if got, ok := MountOf([]byte(mountText), 0, minor); ok {
			t.Errorf("0:%d: %+v", minor, got)
		}
	}
}

func FuzzMountOf(f *testing.F) {
	f.Add([]byte(mountText))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, ok := MountOf(text, 0, 57); ok && m.Kind == "" {
			t.Errorf("%+v", m)
		}
	})
}
