package boltfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filled makes a file and returns its name and its bytes after each of some records.
func filled(t *testing.T, records ...string) (name string, images [][]byte) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "vote.bolt")
	f, err := Create(name, nil)
	require.NoError(t, err)
	for _, record := range records {
		require.NoError(t, f.Put([]byte(record)))
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		images = append(images, b)
		got, err := Read(name)
		require.NoError(t, err)
		require.Equal(t, record, string(got))
	}
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Put(nil), os.ErrClosed)
	return name, images
}

// The reader agrees with bbolt on records of any size, in a bucket's own page and beside it.
func TestARecordIsReadBack(t *testing.T) {
	var records []string
	for size := 0; size < 20_000; size += 1 + size/3 {
		records = append(records, strings.Repeat("x", size), strings.Repeat("y", size/2))
	}
	name, _ := filled(t, records...)
	f, err := Create(name, []byte("anew"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got, err := Read(name)
	require.NoError(t, err)
	require.Equal(t, "anew", string(got))
	_, err = Read(name + ".tmp")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// What a process left behind that died in Create is not opened by bbolt.
func TestALeftoverIsMadeAnew(t *testing.T) {
	name, images := filled(t, "a", "b")
	images[1][pageBytes+40] ^= 1
	require.NoError(t, os.WriteFile(name+".tmp", images[1][:9000], 0o600))
	f, err := Create(name, []byte("c"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoFileExists(t, name+".tmp")
}

// Every flipped bit, every cut: the newest record or ErrDamaged, never another record.
func TestDamageIsSeen(t *testing.T) {
	_, images := filled(t, "one", "two", "three", "four")
	whole := images[3]
	seen := 0
	check := func(b []byte) {
		got, err := parse(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			seen++
			return
		}
		require.Equal(t, "four", string(got))
	}
	b := bytes.Clone(whole)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		check(b)
		b[bit/8] ^= 1 << (bit % 8)
	}
	require.Greater(t, seen, 1500)
	for size := range len(b) {
		check(b[:size:size])
	}
	_, err := parse(b[:16<<10])
	require.ErrorContains(t, err, "damaged")
	check(make([]byte, len(b)))
	check(make([]byte, maxBytes+1))
	for at := range len(b) / pageBytes { // a page of before, and the one of another place
		for _, image := range images[:3] {
			b := bytes.Clone(whole)
			copy(b[at*pageBytes:], image[at*pageBytes:][:min(pageBytes, len(image)-at*pageBytes)])
			got, err := parse(b)
			if err == nil && at > 1 {
				require.Equal(t, "four", string(got), "page %d", at)
			}
		}
	}
}

// A power cut in a Put leaves any of the sectors that it wrote: the record of before, the new one,
// or ErrDamaged, for which there is the file beside.
func TestAnySectorsOfAPut(t *testing.T) {
	const sector = 512
	_, images := filled(t, "one", "two", "three", "four", "five", "six")
	pick := rand.New(rand.NewPCG(1, 2))
	outcomes := make(map[string]int)
	for range 20_000 {
		n := pick.IntN(len(images) - 1)
		b := bytes.Clone(images[n])
		for at := 0; at < len(b); at += sector {
			if pick.IntN(2) == 0 {
				copy(b[at:at+sector], images[n+1][at:])
			}
		}
		before, err := parse(images[n])
		require.NoError(t, err)
		after, err := parse(images[n+1])
		require.NoError(t, err)
		got, err := parse(b)
		switch {
		case errors.Is(err, ErrDamaged):
			outcomes["damaged"]++
		case bytes.Equal(got, before):
			outcomes["before"]++
		case bytes.Equal(got, after):
			outcomes["after"]++
		default:
			t.Fatalf("%q", got)
		}
	}
	require.Len(t, outcomes, 3, "%v", outcomes)
}

// bbolt's panics and faults are errors of the Put; nothing is written after one, and Close returns.
func TestAPanicIsAnError(t *testing.T) {
	for name, hurt := range map[string]func(f *File, name string) error{
		"cut while it is mapped": func(_ *File, name string) error { return os.Truncate(name, 0) },
		"panic":                  func(f *File, _ string) error { f.store = nil; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vote.bolt")
			f, err := Create(path, []byte("a"))
			require.NoError(t, err)
			require.NoError(t, hurt(f, path))
			require.ErrorContains(t, f.Put([]byte("b")), "bbolt: ")
			require.ErrorContains(t, f.Put([]byte("c")), "refused")
			require.NoError(t, f.Close())
		})
	}
}

func FuzzRead(f *testing.F) {
	name := filepath.Join(f.TempDir(), "vote.bolt")
	file, err := Create(name, []byte("one"))
	require.NoError(f, err)
	require.NoError(f, file.Put([]byte("two")))
	b, err := os.ReadFile(name)
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parse(b); err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
	})
}
