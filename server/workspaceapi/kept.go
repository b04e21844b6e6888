package workspaceapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"tollgate/engine/workspace"
	"tollgate/server/inspect"
)

// maxUnpacked bounds a document that is read back, in bytes.
const maxUnpacked = 16 << 20

// kept is what is kept of an inspection or an evaluation: its document, and the suggested test. In
// the state it is gzip of a line of JSON, the suggestion, and the document behind it. Replicas hold
// its bytes and never look into them.
type kept struct{ suggestion, document []byte }

// pack makes what is kept.
func pack(r *inspect.Result) ([]byte, error) {
	suggestion, err := json.Marshal(&r.Suggestion, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("workspace: a suggested test: %w", err)
	}
	var document []byte
	if r.Journey != nil {
		document, err = r.Journey.Bytes()
	} else {
		document, err = r.Document.Bytes()
	}
	if err != nil {
		return nil, fmt.Errorf("workspace: a document: %w", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for _, part := range [][]byte{suggestion, {'\n'}, document} {
		if _, err = z.Write(part); err != nil {
			return nil, fmt.Errorf("workspace: pack a document: %w", err)
		}
	}
	if err = z.Close(); err != nil {
		return nil, fmt.Errorf("workspace: pack a document: %w", err)
	}
	if len(document) > maxUnpacked || packed.Len() > workspace.MaxDocumentBytes {
		return nil, fmt.Errorf("workspace: a document of %d bytes, %d packed", len(document),
			packed.Len())
	}
	return packed.Bytes(), nil
}

// unpack reads what pack made.
func unpack(packed []byte) (k kept, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return k, fmt.Errorf("workspace: a kept document: %w", err)
	}
	text := bufio.NewReader(io.LimitReader(z, maxUnpacked+64<<10))
	if k.suggestion, err = text.ReadBytes('\n'); err == nil {
		k.document, err = io.ReadAll(text)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return k, fmt.Errorf("workspace: a kept document: %w", err)
	}
	return k, nil
}
