package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	oracle "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
	"tollgate/server/provider/webhook"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const specSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secretOf(t testing.TB, text string) webhook.Secret {
	t.Helper()
	secret, err := webhook.ParseSecret(text)
	require.NoError(t, err)
	return secret
}

func TestTheExampleOfTheStandard(t *testing.T) {
	h, err := webhook.Sign([]webhook.Secret{secretOf(t, specSecret)}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	require.NoError(t, err)
	require.Equal(t, "1614265330", h.Timestamp)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", h.Signature)
}

// The standard's own library accepts what Sign writes, and Verify what the library writes.
func TestTheStandardsLibraryAgrees(t *testing.T) {
	now := time.Now()
	body := []byte(`{"type":"invoice.paid","data":{"id":"ä"}}`)
	old, next := webhook.MintSecret(), webhook.MintSecret()
	ring := webhook.Secrets{Current: old}.Rotate(next, now)
	h, err := webhook.Sign(ring.At(now), "msg_1", now, body)
	require.NoError(t, err)
	header := http.Header{}
	header.Set(oracle.HeaderWebhookID, h.ID)
	header.Set(oracle.HeaderWebhookTimestamp, h.Timestamp)
	header.Set(oracle.HeaderWebhookSignature, h.Signature)
	for _, secret := range []webhook.Secret{old, next} {
		theirs, err := oracle.NewWebhook(secret.Reveal())
		require.NoError(t, err)
		require.NoError(t, theirs.Verify(body, header))
		require.Error(t, theirs.Verify(append(body, ' '), header))
		signature, err := theirs.Sign("msg_2", now, body)
		require.NoError(t, err)
		_, err = webhook.Verify(ring.At(now), webhook.Headers{
			ID: "msg_2", Timestamp: fmt.Sprint(now.Unix()), Signature: signature,
		}, body, now)
		require.NoError(t, err)
	}
}

func TestWhatIsNotAccepted(t *testing.T) {
	secret, other := webhook.MintSecret(), webhook.MintSecret()
	body := []byte("{}")
	good, err := webhook.Sign([]webhook.Secret{secret}, "msg_1", noon, body)
	require.NoError(t, err)
	both, err := webhook.Sign([]webhook.Secret{other, secret}, "msg_1", noon, body)
	require.NoError(t, err)
	with := func(change func(*webhook.Headers)) webhook.Headers {
		h := good
		change(&h)
		return h
	}
	for _, test := range []struct {
		name string
		h    webhook.Headers
		body string
		now  time.Time
		want error
	}{
		{"good", good, "{}", noon, nil},
		{"one of two", both, "{}", noon, nil},
		{"as old as may be", good, "{}", noon.Add(webhook.Tolerance), nil},
		{"as new as may be", good, "{}", noon.Add(-webhook.Tolerance), nil},
		{"too old", good, "{}", noon.Add(webhook.Tolerance + 1), webhook.ErrTimestamp},
		{"too new", good, "{}", noon.Add(-webhook.Tolerance - 1), webhook.ErrTimestamp},
		{"other body", good, "{ }", noon, webhook.ErrSignature},
		{
			"other id", with(func(h *webhook.Headers) { h.ID = "msg_2" }),
			"{}", noon, webhook.ErrSignature,
		},
		{
			"other time", with(func(h *webhook.Headers) { h.Timestamp = fmt.Sprint(noon.Unix() + 1) }),
			"{}", noon, webhook.ErrSignature,
		},
		{"no id", with(func(h *webhook.Headers) { h.ID = "" }), "{}", noon, webhook.ErrHeaders},
		{
			"id with a point", with(func(h *webhook.Headers) { h.ID = "a.b" }),
			"{}", noon, webhook.ErrHeaders,
		},
		{
			"no time", with(func(h *webhook.Headers) { h.Timestamp = "" }),
			"{}", noon, webhook.ErrHeaders,
		},
		{
			"time with a sign", with(func(h *webhook.Headers) { h.Timestamp = "+" + h.Timestamp }),
			"{}", noon, webhook.ErrHeaders,
		},
		{
			"huge time", with(func(h *webhook.Headers) { h.Timestamp = "9223372036854775807" }),
			"{}", noon, webhook.ErrHeaders,
		},
		{
			"no signature", with(func(h *webhook.Headers) { h.Signature = "" }),
			"{}", noon, webhook.ErrHeaders,
		},
		{
			"other version", with(func(h *webhook.Headers) { h.Signature = "v1a" + h.Signature[2:] }),
			"{}", noon, webhook.ErrSignature,
		},
		{
			"cut", with(func(h *webhook.Headers) { h.Signature = h.Signature[:20] }), "{}", noon,
			webhook.ErrSignature,
		},
		{
			"empty", with(func(h *webhook.Headers) { h.Signature = "v1," }),
			"{}", noon, webhook.ErrSignature,
		},
		{"too many", with(func(h *webhook.Headers) {
			h.Signature = strings.Repeat("v1,x ", 16) + h.Signature
		}), "{}", noon, webhook.ErrHeaders},
	} {
		at, err := webhook.Verify([]webhook.Secret{secret}, test.h, []byte(test.body), test.now)
		require.ErrorIs(t, err, test.want, test.name)
		if test.want == nil {
			require.Equal(t, noon, at, test.name)
		}
	}
	for _, none := range [][]webhook.Secret{nil, {{}}, {other}} {
		_, err := webhook.Verify(none, good, body, noon)
		require.ErrorIs(t, err, webhook.ErrSignature)
	}
	_, err = webhook.Sign(nil, "msg_1", noon, body)
	require.ErrorIs(t, err, webhook.ErrSecret)
	_, err = webhook.Sign([]webhook.Secret{{}}, "msg_1", noon, body)
	require.ErrorIs(t, err, webhook.ErrSecret)
	_, err = webhook.Sign([]webhook.Secret{secret}, "a\nb", noon, body)
	require.ErrorIs(t, err, webhook.ErrHeaders)
}

func TestSecrets(t *testing.T) {
	secret := webhook.MintSecret()
	require.Equal(t, secret, secretOf(t, secret.Reveal()))
	require.NotEqual(t, secret, webhook.MintSecret())
	for _, bad := range []string{
		"", "whsec_", "whsec_c2hvcnQ=", "whsec_!!", specSecret + "\n",
		"whsec_" + strings.Repeat("AAAA", 22),
	} {
		_, err := webhook.ParseSecret(bad)
		require.ErrorIs(t, err, webhook.ErrSecret, bad)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", secret,
		"ring", webhook.Secrets{Current: secret})
	text := log.String() +
		fmt.Sprintf("%v %+v %#v %s %q %x %d", secret, secret, secret, secret, secret,
			secret, secret) + fmt.Sprintf("%v %+v", webhook.Secrets{Current: secret}, &secret)
	require.NotContains(t, text, secret.Reveal()[10:20])
	require.NotContains(t, text, fmt.Sprintf("%x", secret.Reveal()[6:10]))
	_, err := json.Marshal(secret)
	require.Error(t, err)
}

func TestRotation(t *testing.T) {
	a, b, c := webhook.MintSecret(), webhook.MintSecret(), webhook.MintSecret()
	ring := webhook.Secrets{Current: a}
	require.Equal(t, []webhook.Secret{a}, ring.At(noon))
	ring = ring.Rotate(b, noon)
	require.Equal(t, []webhook.Secret{b, a}, ring.At(noon))
	require.Equal(t, []webhook.Secret{b, a}, ring.At(noon.Add(24*time.Hour-1)))
	require.Equal(t, []webhook.Secret{b}, ring.At(noon.Add(24*time.Hour)))
	ring = ring.Rotate(c, noon.Add(time.Hour))
	require.Equal(t, []webhook.Secret{c, b}, ring.At(noon.Add(2*time.Hour)))
	require.Empty(t, webhook.Secrets{}.At(noon))
}

func TestSchedule(t *testing.T) {
	require.Equal(t, 10, webhook.Patient.Attempts())
	require.Equal(t, 5, webhook.Brief.Attempts())
	distinct := map[time.Duration]bool{}
	for attempt, wait := range webhook.Patient {
		for i := range 100 {
			id := fmt.Sprint("msg_", i)
			got, again := webhook.Patient.Next(attempt+1, id, 0)
			require.True(t, again)
			require.GreaterOrEqual(t, got, wait)
			require.Less(t, got, wait+wait/10+1)
			repeated, _ := webhook.Patient.Next(attempt+1, id, 0)
			require.Equal(t, got, repeated)
			distinct[got] = true
		}
	}
	require.Greater(t, len(distinct), 800, "waits are spread")
	for _, attempt := range []int{-1, 0, 10, 1 << 40} {
		_, again := webhook.Patient.Next(attempt, "msg_1", time.Hour)
		require.False(t, again)
	}
	asked, _ := webhook.Brief.Next(1, "msg_1", time.Hour)
	require.Equal(t, time.Hour, asked)
	asked, _ = webhook.Brief.Next(4, "msg_1", time.Second)
	require.GreaterOrEqual(t, asked, 2*time.Hour)
	asked, _ = webhook.Brief.Next(1, "msg_1", 1000*time.Hour)
	require.Equal(t, 24*time.Hour, asked)
}

func newSender(t *testing.T, host string) *webhook.Sender {
	t.Helper()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		AllowHosts:   []string{host}, Timeout: 2 * time.Second, BodyLimit: 1000,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return webhook.NewSender(client, func() time.Time { return noon })
}

func TestDelivery(t *testing.T) {
	secrets := webhook.Secrets{Current: webhook.MintSecret()}
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Error("not as it was sent")
		}
		h := webhook.ReadHeaders(r.Header.Get)
		if _, err := webhook.Verify(secrets.At(noon), h, body, noon); err != nil || h.ID != "msg_1" {
			t.Error("not signed:", err)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	sender := newSender(t, server.Listener.Addr().String())
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   webhook.Result
	}{
		{"200", status(200), webhook.Result{Outcome: webhook.Delivered, Status: 200}},
		{"204", status(204), webhook.Result{Outcome: webhook.Delivered, Status: 204}},
		{"too long an answer", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 100_000))
		}, webhook.Result{Outcome: webhook.Delivered, Status: 200}},
		{"410", status(410), webhook.Result{Outcome: webhook.Gone, Status: 410}},
		{"404", status(404), webhook.Result{Outcome: webhook.Retry, Status: 404}},
		{"500", status(500), webhook.Result{Outcome: webhook.Retry, Status: 500}},
		{"redirect", status(302, "Location", "/"), webhook.Result{Outcome: webhook.Retry, Status: 302}},
		{
			"429", status(429, "Retry-After", "90"),
			webhook.Result{Outcome: webhook.Retry, Status: 429, RetryAfter: 90 * time.Second},
		},
		{
			"503", status(503, "Retry-After", noon.Add(time.Hour).Format(http.TimeFormat)),
			webhook.Result{Outcome: webhook.Retry, Status: 503, RetryAfter: time.Hour},
		},
		{
			"a past date", status(503, "Retry-After", noon.Add(-time.Hour).Format(http.TimeFormat)),
			webhook.Result{Outcome: webhook.Retry, Status: 503},
		},
		{
			"a year", status(503, "Retry-After", "31536000"),
			webhook.Result{Outcome: webhook.Retry, Status: 503, RetryAfter: 24 * time.Hour},
		},
		{
			"nonsense", status(503, "Retry-After", "-1"),
			webhook.Result{Outcome: webhook.Retry, Status: 503},
		},
	} {
		answer = test.answer
		got, err := sender.Deliver(t.Context(), webhook.Endpoint{URL: server.URL, Secrets: secrets},
			webhook.Message{ID: "msg_1", Body: []byte(`{"type":"invoice.paid"}`)})
		require.NoError(t, err, test.name)
		require.Equal(t, got.Outcome == webhook.Delivered, got.Reason == "", test.name)
		got.Reason, got.Detail = "", ""
		require.Equal(t, test.want, got, test.name)
	}
}

func TestDeliveryThatDoesNotArrive(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	sender := newSender(t, closed)
	secrets := webhook.Secrets{Current: webhook.MintSecret()}
	message := webhook.Message{ID: "msg_1", Body: []byte("{}")}
	for url, want := range map[string]webhook.Outcome{
		"http://" + closed + "/hidden": webhook.Retry, "http://10.0.0.1/hidden": webhook.Blocked,
		"http://u:hidden@example.com/": webhook.Blocked, "hidden": webhook.Blocked,
	} {
		got, err := sender.Deliver(t.Context(), webhook.Endpoint{URL: url, Secrets: secrets}, message)
		require.NoError(t, err)
		require.Equal(t, want, got.Outcome, url)
		require.NotEmpty(t, got.Reason)
		require.NotContains(t, got.Reason+got.Detail, "hidden")
		require.NotContains(t, got.Reason, "127.0.0.1")
		require.NotContains(t, got.Reason, "10.0.0.1")
	}
	_, err = sender.Deliver(t.Context(), webhook.Endpoint{URL: "http://" + closed}, message)
	require.ErrorIs(t, err, webhook.ErrSecret, "nothing leaves unsigned")
}

func FuzzVerify(f *testing.F) {
	secret, err := webhook.ParseSecret(specSecret)
	require.NoError(f, err)
	h, err := webhook.Sign([]webhook.Secret{secret}, "msg_1", noon, []byte("{}"))
	require.NoError(f, err)
	f.Add(h.ID, h.Timestamp, h.Signature, []byte("{}"))
	f.Add("", "-1", "v1", []byte{})
	f.Add("a.b", "1e3", "v1,,, v1,", []byte("."))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		offered := webhook.Headers{ID: id, Timestamp: timestamp, Signature: signature}
		at, err := webhook.Verify([]webhook.Secret{secret}, offered, body, noon)
		if err != nil {
			return
		}
		// Accepted messages are those that we would have signed.
		mine, err := webhook.Sign([]webhook.Secret{secret}, id, at, body)
		require.NoError(t, err)
		require.Equal(t, timestamp, mine.Timestamp)
		require.Contains(t, strings.Split(signature, " "), mine.Signature)
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add(specSecret)
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		secret, err := webhook.ParseSecret(text)
		if err == nil {
			require.Equal(t, "whsec_"+strings.TrimPrefix(text, "whsec_"), secret.Reveal())
		}
	})
}
