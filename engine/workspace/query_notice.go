package workspace

import "slices"

// IssueView is one thing that stops an agent.
//
//schema:answer workspaceapi Issue
type IssueView struct {
	issueFacts
	Flow [16]byte `json:"flowId" in:"after=id" id:"markFlow"`
}

func (x *notices) issueView(row uint32) IssueView {
	i := x.issues.Read(row)
	return IssueView{i.issueFacts, x.flows.Read(i.Flow).ID}
}

// Issue finds an issue of a workspace.
func (m *Machine) Issue(workspace uint32, id [16]byte) (IssueView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.issues.of(workspace, id), s.issueView)
}

// Issues lists a workspace's issues; more reports whether there are others behind them.
func (m *Machine) Issues(workspace uint32, p Page) (views []IssueView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chainOf(&s.issues, workspace, w.Issues, s.issueView))
}

// NotificationView is one update of a workspace.
//
//schema:answer workspaceapi Notification
type NotificationView struct {
	noticeFacts
	Flow [16]byte `json:"flowId" in:"after=reason" rule:"null" id:"markFlow"`
}

func (x *notices) noticeView(row uint32) NotificationView {
	n := x.notifications.Read(row)
	v := NotificationView{noticeFacts: n.noticeFacts}
	if n.Flow != 0 {
		v.Flow = x.flows.Read(n.Flow).ID
	}
	return v
}

// Notification finds a notification of a workspace.
func (m *Machine) Notification(workspace uint32, id [16]byte) (NotificationView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.notifications.of(workspace, id), s.noticeView)
}

// Notifications lists a workspace's notifications; more reports whether there are others behind
// them.
func (m *Machine) Notifications(workspace uint32, p Page) (views []NotificationView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chainOf(&s.notifications, workspace, w.Notifications, s.noticeView))
}

// AlertsView is what a flow's owner wants to hear, and what was sent.
//
//schema:answer workspaceapi AlertSettings
type AlertsView struct {
	alertFacts
	Confirmed  bool           `json:"emailConfirmed" in:"after=email" if:"Mails()"`
	Deliveries []DeliveryView // newest first
}

// Mails reports whether alerts are to be mailed.
func (v *AlertsView) Mails() bool { return v.Email != "" }

func (a *alert) view() AlertsView {
	v := AlertsView{alertFacts: a.alertFacts, Confirmed: !a.Unconfirmed}
	for i := len(a.Deliveries) - 1; i >= 0; i-- {
		d := a.Deliveries[i]
		if a.held(&a.Deliveries[i]) {
			d.Status = DeliveryUnconfirmed
		}
		v.Deliveries = append(v.Deliveries, d)
	}
	return v
}

// Alerts finds a flow of a workspace, and what its alerts are; set reports whether somebody ever
// set them.
func (m *Machine) Alerts(workspace uint32, flow [16]byte) (f FlowView, v AlertsView, set, ok bool) {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.flowRow(workspace, flow)
	if row == 0 {
		return f, v, false, false
	}
	at := s.flows.Read(row).Alert
	if at == 0 {
		return s.flowView(row), v, false, true
	}
	return s.flowView(row), s.alerts.Read(at).view(), true, true
}

// DueAlert is an alert that is to be sent, and all that is needed for it.
type DueAlert struct {
	DeliveryView
	// Alert is the number of the flow's alerts.
	Alert             uint32
	FlowID, Workspace [16]byte
	Label, Email, URL string
	Secret, Previous  []byte
	PreviousUntil     int64
	Watch             WatchState
}

// maxDueAlerts bounds the flows whose alerts one DueAlerts looks at: commands wait meanwhile, and
// where many receivers fail, many alerts wait that are not due.
const maxDueAlerts = 5000

// DueAlerts returns the alerts to be sent at an instant of log time, after row after; 0 starts at
// the first. For each flow and channel it is the oldest, because they are sent in order. It returns
// about limit alerts; next is where to continue, 0 at the end.
func (m *Machine) DueAlerts(now int64, after uint32, limit int) (due []DueAlert, next uint32) {
	s := m.read()
	defer s.mu.RUnlock()
	for looked, row := range s.alerting.behind(after) {
		if len(due) >= limit || looked >= maxDueAlerts {
			return due, after
		}
		after = row
		a := s.alerts.Read(row)
		for _, channel := range [...]Channel{ChannelEmail, ChannelWebhook} {
			i := slices.IndexFunc(a.Deliveries, func(d DeliveryView) bool {
				return d.Channel == channel && d.Status == DeliveryWaiting && !a.held(&d)
			})
			if i < 0 || a.Deliveries[i].NextAt > now {
				continue
			}
			w, f := s.workspaces.Read(a.Workspace), s.flows.Read(a.Flow)
			due = append(due, DueAlert{
				DeliveryView: a.Deliveries[i], Alert: row, FlowID: f.ID, Workspace: w.ID,
				Label: w.Label, Email: a.Email, URL: a.URL, Secret: a.Secret, Previous: a.Previous,
				PreviousUntil: a.PreviousUntil, Watch: f.Watch,
			})
		}
	}
	return due, 0
}

// AddressView is what a link asks.
type AddressView struct{ Email, Flow, Label string }

// AddressByLink finds what the link of a flow's alerts asks; false where it works no more.
func (m *Machine) AddressByLink(flow [16]byte, link [32]byte, now int64) (AddressView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	at := s.askedBy(&flow, &link, now)
	if at == 0 {
		return AddressView{}, false
	}
	a := s.alerts.Read(at)
	return AddressView{
		Email: a.Email, Flow: s.flowView(a.Flow).Name, Label: s.workspaces.Read(a.Workspace).Label,
	}, true
}
