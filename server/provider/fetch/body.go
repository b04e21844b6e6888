package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// readBody reads and decodes a body. At most limit bytes are taken from the wire, and at most limit
// bytes come out of the decoder: a megabyte of gzip can hold a gigabyte of zeros, and an endless
// one can hold nothing at all. With an error it returns the bytes before it, of a body that is
// announced as larger one byte: that distinguishes it from silence.
func readBody(answer *http.Response, limit int) ([]byte, error) {
	tooLarge := &Refusal{Rule: RuleBody, Detail: fmt.Sprintf("more than %d bytes", limit)}
	if answer.Body != http.NoBody && answer.ContentLength > int64(limit) {
		first := make([]byte, 1)
		if n, err := io.ReadFull(answer.Body, first); err != nil {
			return first[:n], err
		}
		return first, tooLarge
	}
	wire := &io.LimitedReader{R: answer.Body, N: int64(limit) + 1}
	var decoded io.Reader = wire
	encodings := strings.Join(answer.Header.Values("Content-Encoding"), ",")
	switch encoding := strings.ToLower(encodings); {
	case encoding == "" || encoding == "identity":
	case encoding == "gzip" || encoding == "x-gzip":
		buffered := bufio.NewReader(wire)
		if _, err := buffered.Peek(1); err == io.EOF {
			// Answers without a body (HEAD, 204, 304) may name an encoding all the same.
			return nil, nil
		}
		unzip, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, damaged(err)
		}
		decoded = unzip
	default:
		return nil, &Refusal{Rule: RuleEncoding, Detail: "only gzip was asked for"}
	}
	var body bytes.Buffer
	_, err := io.Copy(&body, io.LimitReader(decoded, int64(limit)+1))
	switch {
	case wire.N == 0 || body.Len() > limit:
		return body.Bytes(), tooLarge
	case err != nil:
		return body.Bytes(), damaged(err)
	}
	return body.Bytes(), nil
}

// damaged distinguishes a broken encoding from a broken connection.
func damaged(err error) error {
	var corrupt flate.CorruptInputError
	if err == gzip.ErrHeader || err == gzip.ErrChecksum || errors.As(err, &corrupt) {
		return &Refusal{Rule: RuleEncoding, Detail: "the gzip encoding is damaged"}
	}
	return err
}
