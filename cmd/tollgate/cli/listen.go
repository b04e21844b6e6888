package cli

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	api "tollgate/sdk/go"
)

// ListenCommand takes webhooks to this machine.
type ListenCommand struct {
	inEnvironment `embed:""`
	Event         []string `placeholder:"NAME" help:"An event to receive, such as invoice.paid; repeatable. Default: all."`
	To            string   `arg:"" optional:"" placeholder:"URL" help:"Where to send messages: http://localhost:PORT/PATH. Without it they are printed."`
}

// Help says how messages come here.
func (c *ListenCommand) Help() string {
	return "While the command runs, the environment has a webhook endpoint that only it reads. " +
		"It reads messages through the admin API, signs them as the cluster would, and sends " +
		"each once to a program on this machine, so nothing here needs a public address. Ctrl-C removes " +
		"the endpoint; where the command was killed, the next one on the same machine does. The cluster " +
		"cannot reach it: it is listed as failing, and disabled after 5 days."
}

const (
	// listenURL leads nowhere: the name is reserved for that.
	listenURL   = "https://listen.invalid/"
	listenPause = time.Second
	listenPage  = "500"
	sendTimeout = 10 * time.Second
)

// Run takes messages until ctx ends.
func (c *ListenCommand) Run(ctx context.Context, out io.Writer) error {
	if u, err := url.Parse(c.To); c.To != "" && (err != nil || u.Scheme != "http" || !onLoopback(u)) {
		return fmt.Errorf("%s is not http://localhost:PORT; nothing was changed", c.To)
	}
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	c.removeLeft(ctx, admin)
	var made api.WebhookEndpoint
	_, err = send(ctx, admin, "POST", c.endpoints(), map[string]any{
		"url": listenURL, "events": append([]string{}, c.Event...),
		"description": listenMark() + strconv.Itoa(os.Getpid()),
	}, &made)
	if err != nil {
		return err
	}
	endpoint := c.endpoints() + "/" + url.PathEscape(made.ID)
	fmt.Fprintf(os.Stderr, "Receiving webhooks of %s/%s. Signing secret: %s\nPress Ctrl-C to stop.\n",
		c.Account, c.Environment, made.Secret)
	err = c.follow(ctx, admin, out, endpoint, made.Secret)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminPatience)
	defer cancel()
	if _, removed := send(last, admin, "DELETE", endpoint, nil, nil); removed != nil {
		fmt.Fprintf(os.Stderr, "The endpoint is still there: tollgate webhooks delete %s\n", made.ID)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listenMark begins the description of an endpoint that a process of this machine made; its process
// id follows.
func listenMark() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return "tollgate listen on " + host + ", process "
}

// removeLeft removes the endpoints of those that were killed on this machine, as far as it can.
func (c *ListenCommand) removeLeft(ctx context.Context, admin *api.Client) {
	var all []api.WebhookEndpoint
	if _, err := send(ctx, admin, "GET", c.endpoints(), nil, &all); err != nil {
		return // what follows says why
	}
	for i := range all {
		pid, ours := strings.CutPrefix(all[i].Description, listenMark())
		if !ours || all[i].URL != listenURL || runs(pid) {
			continue
		}
		_, err := send(ctx, admin, "DELETE", c.endpoints()+"/"+url.PathEscape(all[i].ID), nil, nil)
		if err == nil {
			fmt.Fprintf(os.Stderr, "Removed the endpoint of process %s, which has ended.\n", pid)
		}
	}
}

// runs reports whether a process of this machine runs, or may.
func runs(pid string) bool {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return true
	}
	return !errors.Is(syscall.Kill(id, 0), syscall.ESRCH)
}

// onLoopback reports whether an address is this machine's own.
func onLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// follow hands on what is new for the endpoint, oldest first.
func (c *ListenCommand) follow(
	ctx context.Context, admin *api.Client, out io.Writer, endpoint, secret string,
) error {
	for seen := map[string]bool{}; ; {
		fresh, listed, err := unseen(ctx, admin, endpoint+"/deliveries", seen)
		if err != nil {
			return err
		}
		seen = listed
		for _, id := range slices.Backward(fresh) {
			var whole api.WebhookDelivery
			_, err = send(ctx, admin, "GET", endpoint+"/deliveries/"+url.PathEscape(id), nil, &whole)
			if err != nil {
				return err
			}
			if err = c.take(ctx, out, &whole, secret); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenPause):
		}
	}
}

// unseen lists messages, newest first, back to one that has been seen. listed is what was read
// meanwhile, seen or not.
func unseen(ctx context.Context, admin *api.Client, path string, seen map[string]bool) (
	fresh []string, listed map[string]bool, err error,
) {
	listed = map[string]bool{}
	for cursor, known := "", false; ; {
		var page deliveries
		query := url.Values{"limit": {listenPage}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if _, err = send(ctx, admin, "GET", path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, nil, err
		}
		for _, d := range page.Deliveries {
			if known = known || seen[d.ID]; !known {
				fresh = append(fresh, d.ID)
			}
			listed[d.ID] = true
		}
		if cursor = page.NextCursor; known || cursor == "" {
			return fresh, listed, nil
		}
	}
}

// take prints a message, or sends it on and prints what came of it, also where ctx ends meanwhile.
func (c *ListenCommand) take(
	ctx context.Context, out io.Writer, d *api.WebhookDelivery, secret string,
) error {
	if c.To == "" {
		return Say(out, "%s", d.Payload)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", c.To, bytes.NewReader(d.Payload))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("webhook-id", d.ID)
	request.Header.Set("webhook-timestamp", at)
	request.Header.Set("webhook-signature", sign(secret, d.ID+"."+at+".", d.Payload))
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return Say(out, "%s  %-24s  %s  %s", moment(d.CreatedAt), d.Type, d.ID, err)
	}
	came := answer.Status
	if err = answer.Body.Close(); err != nil {
		came += ", cut off"
	}
	return Say(out, "%s  %-24s  %s  %s", moment(d.CreatedAt), d.Type, d.ID, came)
}

// sign signs a message as Standard Webhooks says: HMAC-SHA256 of id.timestamp.body.
func sign(secret, front string, body json.RawMessage) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return ""
	}
	sum := hmac.New(sha256.New, key)
	for _, part := range [][]byte{[]byte(front), body} {
		sum.Write(part)
	}
	return "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}
