package storetest

import "slices"

// cases is the suite, in the order of a message's life.
func cases() []testCase {
	return slices.Concat(
		claimCases(), printCases(), leaseCases(), commitCases(), claimlessCases(), stateCases(), historyCases(),
		retentionCases(), feedCases(), settleCases(), orderCases(), timerCases(), recordCases(), scanCases(),
		reopenCases(), closeCases(),
	)
}
