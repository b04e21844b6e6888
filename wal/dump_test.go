package wal_test

import (
	"bytes"
	"errors"
	"regexp"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// dumped is Dump's output with the checksums, which hold a random salt, made equal.
func dumped(disk *faultfs.Disk) (string, error) {
	var out bytes.Buffer
	err := wal.Dump(&out, testDir, wal.DumpOptions{FS: disk})
	text := regexp.MustCompile(`\b[0-9a-f]{8}\b`).ReplaceAllString(out.String(), "XXXXXXXX")
	return text, err
}

func smallLog(t *testing.T) *faultfs.Disk {
	disk := faultfs.New()
	l := open(t, disk, 512)
	require.NoError(t, l.StoreLogs([]*raft.Log{record(1, 1, 100), record(2, 2, 100)}))
	require.NoError(t, l.StoreLog(record(3, 3, 200)))
	require.NoError(t, l.DeleteRange(1, 1))
	disk.Kill()
	return disk
}

func TestDumpPrintsTheLog(t *testing.T) {
	disk := smallLog(t)
	before := disk.Ops()
	disk.Inject(func(op faultfs.Op) error {
		switch op.Kind {
		case faultfs.KindOpen, faultfs.KindRead, faultfs.KindList:
			return nil
		}
		return errors.New("Dump only reads")
	})
	text, err := dumped(disk)
	require.NoError(t, err)
	require.Greater(t, disk.Ops(), before)
	require.Equal(t, `MANIFEST segments 1 to 2, first record 2, durable up to record 3 at least
0000000000000001.seg 512 bytes, from record 0, chained to XXXXXXXX
0000000000000001.seg         64 index=1 term=1 type=LogNoop data=100 ext=0 `+
		`appended=2023-11-14T22:13:21.000000001Z crc=XXXXXXXX ok deleted
0000000000000001.seg        232 index=2 term=2 type=LogAddPeerDeprecated data=100 ext=5 `+
		`appended=2023-11-14T22:13:22.000000002Z crc=XXXXXXXX ok
0000000000000002.seg 512 bytes, from record 3, chained to XXXXXXXX
0000000000000002.seg         64 index=3 term=3 type=LogRemovePeerDeprecated data=200 ext=0 `+
		`appended=2023-11-14T22:13:23.000000003Z crc=XXXXXXXX ok
2 records, index 2 to 3, 2 segments, 1024 bytes: no damage
`, text)
}

func TestDumpNamesDamage(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*faultfs.Disk, []string) error
		want    string
		damaged bool
	}{
		{"flipped bit", func(d *faultfs.Disk, paths []string) error {
			return d.Corrupt(paths[0], func(b []byte) []byte { b[300] ^= 1; return b })
		}, "0000000000000001.seg        232 DAMAGED at record 2: record's checksum", true},
		{"missing segment", func(d *faultfs.Disk, paths []string) error {
			return d.Remove(paths[0])
		}, "0000000000000001.seg          0 DAMAGED at record 0: the segment is missing", true},
		{"bad segment header", func(d *faultfs.Disk, paths []string) error {
			return d.Corrupt(paths[1], func(b []byte) []byte { b[3] ^= 1; return b })
		}, "0000000000000002.seg          0 DAMAGED at record 0: not a segment", true},
		{"bad manifest", func(d *faultfs.Disk, _ []string) error {
			return d.Corrupt(testDir+"/MANIFEST", func(b []byte) []byte { b[30] ^= 1; return b })
		}, "MANIFEST DAMAGED", true},
		{"bad manifest, the records are shown", func(d *faultfs.Disk, _ []string) error {
			return d.Corrupt(testDir+"/MANIFEST", func(b []byte) []byte { b[30] ^= 1; return b })
		}, "3 records, index 1 to 3, 2 segments, 1024 bytes: DAMAGED", true},
		{"missing manifest", func(d *faultfs.Disk, _ []string) error {
			return d.Remove(testDir + "/MANIFEST")
		}, "there are records, but no manifest", true},
		{"lost end", func(d *faultfs.Disk, paths []string) error {
			return d.Corrupt(paths[1], func(b []byte) []byte { return b[:64] })
		}, "the log ends at record 2, but record 3 was acknowledged", true},
		{"torn tail", func(d *faultfs.Disk, paths []string) error {
			return d.Corrupt(paths[1], func(b []byte) []byte { return append(b[:350], "torn"...) })
		}, "0000000000000002.seg        328 TORN TAIL of 26 bytes: not a record", false},
		{"left over", func(d *faultfs.Disk, paths []string) error {
			_, err := d.Create(testDir + "/0000000000000009.seg")
			return err
		}, "0000000000000009.seg 0 bytes, not listed: left over", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := smallLog(t)
			require.NoError(t, c.change(disk, segments(t, disk)))
			text, err := dumped(disk)
			require.Contains(t, text, c.want)
			require.Equal(t, c.damaged, errors.Is(err, wal.ErrDamaged), "%v", err)
			require.Equal(t, !c.damaged, err == nil)
		})
	}
	_, err := dumped(faultfs.New())
	require.Error(t, err)
	fresh := faultfs.New()
	open(t, fresh, 0)
	require.NoError(t, fresh.Corrupt(segments(t, fresh)[0], func(b []byte) []byte {
		return append(b, "torn"...)
	}))
	text, err := dumped(fresh)
	require.NoError(t, err)
	require.Contains(t, text, "64 TORN TAIL of 4 bytes")
}

func TestDumpOfNoLog(t *testing.T) {
	disk := faultfs.New()
	require.NoError(t, disk.MkdirAll(testDir))
	text, err := dumped(disk)
	require.ErrorContains(t, err, "no log in "+testDir)
	require.Empty(t, text)
}
