package zone_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/wire"
	enginezone "tollgate/engine/zone"
	"tollgate/server/zone"
)

// names are zones with daylight saving, without, by half an hour, with changes at midnight, with a
// calendar of its own, and far from UTC.
var names = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana",
	"Africa/Casablanca", "Asia/Beirut", "Pacific/Apia", "Asia/Kathmandu", "Pacific/Kiritimati",
	"Etc/GMT+12",
}

func TestOffsetsAreThoseOfTheDatabase(t *testing.T) {
	for _, name := range names {
		z, err := zone.Load(name)
		require.NoError(t, err, name)
		require.True(t, z.Valid(), name)
		require.Less(t, len(wire.Encode(nil, z)), 4<<10, name)
		place, err := time.LoadLocation(name)
		require.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			at := time.UnixMilli(rapid.Int64Range(1_577_836_800_000, 4_102_444_799_999).Draw(t, "at"))
			offset, from, until := z.At(at.UnixMilli())
			_, want := at.In(place).Zone()
			require.EqualValues(t, want*1000, offset, name)
			require.LessOrEqual(t, from, at.UnixMilli())
			require.Greater(t, until, at.UnixMilli())
		})
	}
}

// TestBeginsIsTheFirstInstant compares Begins with a search minute by minute.
func TestBeginsIsTheFirstInstant(t *testing.T) {
	for _, name := range names {
		z, err := zone.Load(name)
		require.NoError(t, err)
		changes := z.Changes
		for i := range min(len(changes), 12) {
			for local := changes[i].At - 26*hour; local < changes[i].At+26*hour; local += 30 * minute {
				begins := z.Begins(local)
				for at := local - 27*hour; at < local+27*hour; at += minute {
					offset, _, _ := z.At(at)
					if at+offset >= local {
						require.Equal(t, at, begins, "%s: %d", name, local)
						break
					}
				}
			}
		}
	}
}

const (
	minute = 60 * 1000
	hour   = 60 * minute
)

func TestUnknownZones(t *testing.T) {
	for _, name := range []string{"", "Local", "Mars/Olympus", "../etc/passwd", "Europe/Berlin\x00"} {
		_, err := zone.Load(name)
		require.ErrorIs(t, err, zone.ErrUnknown, name)
	}
}

func TestZonesOutOfBounds(t *testing.T) {
	for _, z := range []enginezone.Zone{
		{},
		{Name: "A", Offset: 25 * hour},
		{Name: "A", Changes: []enginezone.Change{{At: 2}, {At: 1}}},
		{Name: "A", Changes: []enginezone.Change{{At: 1, Offset: -25 * hour}}},
		{Name: "A", Changes: make([]enginezone.Change, enginezone.MaxChanges+1)},
	} {
		require.False(t, z.Valid())
	}
}
