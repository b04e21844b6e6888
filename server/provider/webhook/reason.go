package webhook

import (
	"crypto/tls"
	"errors"
	"net"

	"tollgate/server/provider/fetch"
)

// refusals describe our rules' refusals, for the delivery log.
var refusals = map[fetch.Rule]string{
	fetch.RuleURL:      "the address is not a web address",
	fetch.RuleUserinfo: "the address holds a user name or a password",
	fetch.RuleHost:     "the address names no host that can be reached",
	fetch.RulePort:     "webhooks are not sent to this port",
	fetch.RuleAddress:  "the endpoint's host is not a public address",
	fetch.RuleOwn:      "the address is this service's own",
	fetch.RuleBudget:   "there was no time left for this attempt",
	fetch.RuleTime:     "the endpoint did not answer in time",
	fetch.RuleHeaders:  "the endpoint's answer is larger than it may be",
	fetch.RuleBody:     "the endpoint's answer is larger than it may be",
	fetch.RuleEncoding: "the endpoint's answer cannot be read",
}

// reason describes why nothing arrived, without an address: the dialled one may be within a private
// network, which readers of the delivery log need not know.
func reason(err error) string {
	var (
		refusal     *fetch.Refusal
		unknown     *net.DNSError
		certificate *tls.CertificateVerificationError
		broken      *net.OpError
	)
	switch {
	case errors.As(err, &refusal):
		if words := refusals[refusal.Rule]; words != "" {
			return words
		}
		return "redirects are not followed"
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return "the endpoint's host name is not known"
	case errors.As(err, &unknown):
		return "the endpoint's host name could not be looked up"
	case errors.As(err, &certificate):
		return "the endpoint's certificate is not accepted"
	case errors.As(err, &broken) && broken.Op == "dial":
		return "the endpoint takes no connection"
	}
	return "the connection broke before an answer"
}
