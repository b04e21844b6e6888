package billing

import (
	"fmt"

	"tollgate/engine/decimal"
)

func goldenDecimal(text string) decimal.Decimal { return decimal.MustParse(text) }

func recode[T any](
	data []byte, again *[]byte, read func([]byte, *T) ([]byte, error),
	write func([]byte, *T) []byte,
) error {
	var v T
	rest, err := read(data, &v)
	if err != nil || len(rest) != 0 {
		return fmt.Errorf("%d bytes left: %w", len(rest), err)
	}
	*again = write(nil, &v)
	return nil
}

// ReadRecords runs every record codec on data, for the fuzzer.
func ReadRecords(data []byte) {
	var c customer
	var b subscription
	var v invoice
	var n counter
	var x text
	for _, err := range []error{
		readOne(data, &c, customerCodec.Read), readOne(data, &b, subscriptionCodec.Read),
		readOne(data, &v, invoiceCodec.Read), readOne(data, &n, counterCodec.Read),
		readOne(data, &x, textCodec.Read),
	} {
		if err != nil {
			continue // what is no record is refused
		}
	}
}

func readOne[T any](data []byte, v *T, read func([]byte, *T) ([]byte, error)) error {
	_, err := read(data, v)
	return err
}
