package config

import (
	"net"
	"net/mail"
	"time"
)

// Mail says how mails are sent: by a mail server, into a folder, or not at all. The same on each
// node.
type Mail struct {
	// Host and Port are the mail server's; an empty host sends no mail.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	// Security is tls (from the beginning), starttls, or none (in plaintext, and without a
	// password).
	Security string `yaml:"security"`
	// Username and PasswordFile are for servers that ask: the file holds the password.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"passwordFile"`
	// From is who mails are from: an address, or a name and an address in <>.
	From string `yaml:"from"`
	// Timeout bounds one attempt, 1 s to 50 s.
	Timeout time.Duration `yaml:"timeout"`
	// AllowNetworks are private networks in which the mail server may be, as those of Outbound, and
	// for mail alone.
	AllowNetworks []string `yaml:"allowNetworks"`
	// Folder keeps mails in files instead of sending them. Everyone who reaches the operations
	// listener can read them, so that must be an address of loopback.
	Folder string `yaml:"folder"`
}

// maxMailTimeout leaves the sender of alerts time to note what came of a mail.
const maxMailTimeout = 50 * time.Second

func (m *Mail) validate(ops string, complain complainer) {
	complain.oneOf("mail.security", m.Security, "tls", "starttls", "none")
	complain.within("mail.port", m.Port, 1, 65535)
	complain.when(m.Timeout < time.Second || m.Timeout > maxMailTimeout,
		"mail.timeout: %s: want 1s to %s", m.Timeout, maxMailTimeout)
	complain.networks("mail.allowNetworks", m.AllowNetworks)
	complain.when((m.Username == "") != (m.PasswordFile == ""),
		"mail: want both username and passwordFile, or neither")
	complain.when(m.Username != "" && m.Security == "none",
		"mail: a password is not sent in plaintext: want security tls or starttls")
	if host, _, err := net.SplitHostPort(ops); m.Folder != "" && (err != nil || !Loopback(host)) {
		complain("mail.folder: ops is %s: mails that are kept are shown there to whoever reaches it, "+
			"so it is for loopback alone; configure mail.host", ops)
	}
	if m.Host == "" {
		return
	}
	complain.when(m.Folder != "",
		"mail: want a host or a folder, not both: mails that are kept are not sent")
	if _, err := mail.ParseAddress(m.From); err != nil {
		complain("mail.from: %q: want an address, or a name and an address in <>", m.From)
	}
}
