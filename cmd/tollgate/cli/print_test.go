package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

func TestSizesAreInTheUnitInWhichTheyAreShort(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3500: "3.4 KiB", 1 << 20: "1.0 MiB",
		1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB",
	} {
		require.Equal(t, want, Size(bytes))
	}
}

func TestNumbersForPeople(t *testing.T) {
	for _, row := range []struct{ number, currency, want string }{
		{"0", "USD", "0.00 USD"},
		{"1234.5", "USD", "1,234.50 USD"},
		{"-1000", "EUR", "-1,000.00 EUR"},
		{"999", "JPY", "999 JPY"},
		{"1000000", "KWD", "1,000,000.000 KWD"},
		{"0.0000044", "USD", "0.0000044 USD"},
		{"123456", "", "123,456"},
	} {
		require.Equal(t, row.want, money(json.Number(row.number), row.currency))
	}
	require.Equal(t, "-999,999.25", quantity("-999999.25"))
}

func TestAReplacedKeysEndIsTheServers(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, "ends at 2026-05-01T01:00:00Z",
		replacedKey(&api.MadeKey{ReplacedEndsAt: now.Add(time.Hour)}, now))
	require.Equal(t, "has ended", replacedKey(&api.MadeKey{ReplacedEndsAt: now}, now))
	require.Equal(t, "was replaced", replacedKey(&api.MadeKey{}, now))
}
