package accounts

// Numbers of the tables in the snapshot format. They are never reused.
const (
	TableCustomers     = 1
	TableProfiles      = 2
	TableSubscriptions = 3
	TableCounters      = 4
	TableInvoices      = 5
	TableItems         = 6

	TablePools            = 32
	TablePoolTexts        = 33
	TableGrants           = 34
	TableTransactions     = 35
	TableTransactionTexts = 36
	TableCovers           = 37
	TableCorrectionDraws  = 38

	TableLongIDs     = 40 // 41 was the record of admin changes, now in the journal
	TableRequests    = 42
	TableCheckouts   = 43
	TablePayments    = 44
	TableSpans       = 7
	TableBases       = 9
	TableBalances    = 10
	TablePlanChanges = 11
	TableCorrections = 12
	TableSequences   = 13
	TableMeters      = 14 // 8 were meters with the beginning of their tiers
	TableDetails     = 15 // of subscriptions
	TableInterims    = 16
	TableTold        = 17

	TableWebhookEndpoints = 48
	TableWebhookTexts     = 49
	TableDeliveries       = 50
	TableDeliveryTexts    = 51
	TableWebhookAnswers   = 53

	// The numbers 54 to 57 are reserved.
	TableSubmissions = 58

	tableChangeMarks = 64
	TableAnswers     = 66
	TableTraces      = 68
	TableChunks      = 69
	TableArchives    = 70 // 62 were archives of two chains

	TableHolds     = 80
	TableHoldItems = 81
	TableHoldTexts = 82

	// 71 and 72 are listed with the other tables of pools.
	TableTopUps     = 71
	TableTopUpTexts = 72

	TableBudgets       = 88
	TableBudgetKeys    = 89
	TableBudgetNames   = 90
	TableBudgetLimits  = 91
	TableBudgetWindows = 92
	TableBudgetZones   = 93
	TableBudgetTallies = 94
	TableBudgetHeld    = 95
)
