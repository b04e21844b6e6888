package workspace

// Numbers of the tables in the snapshot format. They are never reused.
const (
	tableWorkspaces    = 1
	tableKeys          = 2
	tableFlows         = 3
	tableFlowTexts     = 4
	tableRuns          = 5
	tableRunTexts      = 6
	tablePurchases     = 7
	tableIssues        = 8
	tableNotifications = 9
	tableTransactions  = 10
	tableRequests      = 11
	tableSignups       = 12
	tableAgents        = 13
	tableActs          = 24
	tableInspections   = 40
	tableDocuments     = 41
	tablePersons       = 50
	tableSessions      = 51
	tableLinks         = 52
	tableAlerts        = 130
	tableSchedules     = 141
	tableAccess        = 142
)
