package workspaceapi

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"strings"

	"github.com/gofrs/uuid/v5"
)

// What ids begin with.
const (
	markWorkspace    = "ws_"
	markFlow         = "flow_"
	markRun          = "run_"
	markPurchase     = "pur_"
	markIssue        = "iss_"
	markNotification = "ntf_"
	markTransaction  = "ctx_"
	markPerson       = "per_"
	markLink         = "lnk_"
	markAlert        = "alr_"
)

// digits are those of base32hex in lower case: texts sort like the bytes, so ids sort by time.
var digits = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// idText is an id as callers see it.
func idText(mark string, id [16]byte) string { return mark + digits.EncodeToString(id[:]) }

// parseID reads what idText wrote, and nothing else.
func parseID(mark, text string) (id [16]byte, ok bool) {
	rest, ok := strings.CutPrefix(text, mark)
	if !ok || len(rest) != 26 {
		return id, false
	}
	raw, err := digits.DecodeString(rest)
	if err != nil || len(raw) != 16 {
		return id, false
	}
	id = [16]byte(raw)
	return id, idText(mark, id) == text && id != [16]byte{}
}

// mint makes a time-ordered id.
func mint() [16]byte { return uuid.Must(uuid.NewV7()) }

// mintToken makes the secret of an approval link: 32 random bytes.
func mintToken() string {
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}
