package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"tollgate/server"
	"tollgate/server/console/mails"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// openMail makes what sends mails; nil where none are sent. folder is the same where mails are kept
// instead.
func (n *node) openMail() (sender mail.Sender, folder *mail.Folder, err error) {
	m := &n.settings.Mail
	if m.Folder != "" {
		if folder, err = mail.OpenFolder(m.Folder); err != nil {
			return nil, nil, err
		}
		n.log.Warn("mails are not sent: they are kept, and shown on the operations listener",
			"folder", m.Folder, "page", mails.Root)
		return folder, folder, nil
	}
	if m.Host == "" {
		return nil, nil, nil
	}
	c := mail.SMTPConfig{
		Host: m.Host, Port: m.Port, Security: mail.Security(m.Security), Username: m.Username,
		From: m.From, Timeout: m.Timeout,
	}
	if m.PasswordFile != "" {
		password, err := os.ReadFile(m.PasswordFile)
		if err != nil {
			return nil, nil, fmt.Errorf("mail.passwordFile: %w", err)
		}
		c.Password = mail.Password(strings.TrimSpace(string(password)))
	}
	server := net.JoinHostPort(m.Host, strconv.Itoa(m.Port))
	client, err := n.clientFor("mail", false, []string{server}, m.AllowNetworks)
	if err != nil {
		return nil, nil, err
	}
	c.Dial = client.Dial
	made, err := mail.NewSMTP(c)
	if err != nil {
		return nil, nil, err
	}
	return made, nil, nil
}

// openHooks makes what sends the webhooks of alerts.
func (n *node) openHooks() (*webhook.Sender, error) {
	web, err := n.outboundClient()
	if err != nil {
		return nil, err
	}
	return webhook.NewSender(web, nil), nil
}

// mailRoutes are the page of mails that were not sent; none where they are sent.
func (n *node) mailRoutes() ([]server.Route, error) {
	if n.tenants.mails == nil {
		return nil, nil
	}
	return mails.Routes(n.tenants.mails, n.log)
}
