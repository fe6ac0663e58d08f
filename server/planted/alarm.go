package planted

import "ceiling/internal/sys"

// newAlarms returns n alarms in a channel used as a pool: a timer of Go's runtime would not hold
// for the configured time.
func newAlarms(n int) (chan sys.Alarm, error) {
	alarms := make(chan sys.Alarm, n)
	for range n {
		a, err := sys.NewAlarm()
		if err != nil {
			closeAlarms(alarms)
			return nil, err
		}
		alarms <- a
	}
	return alarms, nil
}

// closeAlarms closes the alarms that are not in use.
func closeAlarms(alarms chan sys.Alarm) {
	for {
		select {
		case a := <-alarms:
			a.Close()
		default:
			return
		}
	}
}
