package billing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

func goldenDecimal(text string) decimal.Decimal { return decimal.MustParse(text) }

func recode[T any](data []byte, again *[]byte, codec page.Codec[T]) error {
	var v T
	rest, err := codec.Read(data, &v)
	if err != nil || len(rest) != 0 {
		return fmt.Errorf("%d bytes left: %w", len(rest), err)
	}
	*again = codec.Append(nil, &v)
	return nil
}

// ReadRecords runs every record codec on data, for the fuzzer.
func ReadRecords(data []byte) {
	for _, err := range []error{
		readOne(data, book.CustomerCodec), readOne(data, book.SubscriptionCodec),
		readOne(data, book.InvoiceCodec),
		readOne(data, book.CounterCodec), readOne(data, rows.TextCodec), readOne(data, book.SpanCodec),
		readOne(data, book.MeterCodec), readOne(data, book.BaseCodec), readOne(data, book.BalanceCodec),
		readOne(data, book.PlanChangeCodec), readOne(data, correctionCodec),
		readOne(data, credits.PoolCodec), readOne(data, credits.GrantCodec),
		readOne(data, credits.TransactionCodec), readOne(data, credits.CoverCodec),
		readOne(data, outbox.WebhookEndpointCodec), readOne(data, outbox.DeliveryCodec),
		readOne(data, book.SequenceCodec),
	} {
		if err != nil {
			continue // what is not a record is refused
		}
	}
}

func readOne[T any](data []byte, codec page.Codec[T]) error {
	var v T
	_, err := codec.Read(data, &v)
	return err
}

// SnapshotBlocks returns the first two blocks of m's snapshot: its header and its first account.
func SnapshotBlocks(m *Machine) (header, account []byte) {
	engineSnapshot, err := m.Snapshot()
	if err != nil {
		panic(err)
	}
	defer engineSnapshot.Release()
	sn := engineSnapshot.(*snapshot)
	a := accountRecord{ID: sn.accounts[0].ID, Name: sn.accounts[0].Name}
	for i := range sn.environments[:2] {
		a.Environments = append(a.Environments, sn.environments[i].record(sn.header.Index))
	}
	return wire.Encode(nil, &sn.header), wire.Encode(nil, &a)
}

// RestoreWithoutRetention restores what stands before the pages of a machine's snapshot, but for
// the retention of audit events.
func RestoreWithoutRetention(m *Machine) error {
	header, account := SnapshotBlocks(m)
	var h snapshotHeader
	if err := wire.Decode(header, &h); err != nil {
		return err
	}
	h.Limits.AuditRetentionMS = 0
	src := blocks(wire.Encode(nil, &h), account)
	return New(Config{}).restoreHead(&machine.BlockReader{Src: src}, newState())
}

// blocks are the front of a snapshot.
func blocks(header, account []byte) *bytes.Reader {
	src := []byte(snapshotMagic)
	for _, body := range [][]byte{header, account} {
		src = binary.LittleEndian.AppendUint32(src, uint32(len(body)))
		src = append(src, body...)
		src = binary.LittleEndian.AppendUint32(src, crc32.Checksum(body, credits.Castagnoli))
	}
	return bytes.NewReader(src)
}

// RestoreBlocks restores what stands before the pages of a snapshot that has these blocks.
func RestoreBlocks(header, account []byte) {
	s := newState()
	src := blocks(header, account)
	if err := New(Config{}).restoreHead(&machine.BlockReader{Src: src}, s); err != nil {
		return
	}
	for _, e := range s.Environments.All() {
		c := e.Catalog.Load()
		for _, v := range c.Versions {
			planView(c, v)
		}
	}
}
