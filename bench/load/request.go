package load

import (
	"fmt"
	"strconv"
)

// Widths of what changes from one request to the next: everything has a fixed place, so that a
// request is made by overwriting a few bytes.
const (
	customerDigits = 7
	keyDigits      = 12
)

// template is a prepared request: its bytes, and where the customer's number and the key's number
// stand in each of its items.
type template struct {
	bytes     []byte
	customers []int // offsets of customerDigits digits
	keys      []int // offsets of keyDigits digits; none in a request without events
}

func setDigits(dst []byte, n uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

func (t *template) setCustomer(item int, n uint64) {
	at := t.customers[item]
	setDigits(t.bytes[at:at+customerDigits], n)
}

func (t *template) setKey(item int, n uint64) {
	at := t.keys[item]
	setDigits(t.bytes[at:at+keyDigits], n)
}

// head writes a request's line and headers.
func (r *Run) head(method, path string, bodyLength int) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n",
		method, path, r.Key)
	if method != "GET" {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", bodyLength)
	}
	return append(b, "\r\n"...)
}

func (r *Run) request(method, path string, body []byte) []byte {
	return append(r.head(method, path, len(body)), body...)
}

func (r *Run) customer(n int) string { return fmt.Sprintf("%s-%0*d", r.name, customerDigits, n) }

// checkTemplate asks whether a customer may use the feature.
func (r *Run) checkTemplate() *template {
	path := "/api/v1/client/entitlements/" + r.name + "-"
	b := r.head("GET", path+fmt.Sprintf("%0*d", customerDigits, 0)+"/"+r.Feature, 0)
	return &template{bytes: b, customers: []int{len("GET " + path)}}
}

// simulateTemplate asks what three units more would be; nothing is counted.
func (r *Run) simulateTemplate() *template {
	open := `{"customerReferenceId":"` + r.name + "-"
	end := `","featureKey":"` + r.Feature + `","track":{"eventName":"` + r.Feature +
		`","usageUnits":3}}`
	b := r.head("POST", "/api/v1/client/entitlements", len(open)+customerDigits+len(end))
	b = append(b, open...)
	at := len(b)
	b = append(append(b, make([]byte, customerDigits)...), end...)
	return &template{bytes: b, customers: []int{at}}
}

// eventTemplate records events usage events of one unit each, as a batch when there are several.
func (r *Run) eventTemplate(worker, events int, batch bool) *template {
	open := `{"eventIdempotencyKey":"` + r.name + "-" + strconv.Itoa(worker) + "-"
	middle := `","eventName":"` + r.Feature + `","featureKey":"` + r.Feature +
		`","customerReferenceId":"` + r.name + "-"
	end := `","occurredAt":"` + r.occurredAt + `","usageUnits":1}`
	size := len(open) + keyDigits + len(middle) + customerDigits + len(end)
	path, length := "/api/v1/client/events", size
	if batch {
		path, length = path+"/batch", events*(size+1)+1
	}
	t := &template{bytes: r.head("POST", path, length)}
	for i := range events {
		if batch {
			t.bytes = append(t.bytes, "[,"[min(i, 1)])
		}
		t.bytes = append(t.bytes, open...)
		t.keys = append(t.keys, len(t.bytes))
		t.bytes = append(t.bytes, make([]byte, keyDigits)...)
		t.bytes = append(t.bytes, middle...)
		t.customers = append(t.customers, len(t.bytes))
		t.bytes = append(t.bytes, make([]byte, customerDigits)...)
		t.bytes = append(t.bytes, end...)
	}
	if batch {
		t.bytes = append(t.bytes, ']')
	}
	return t
}
