package planted

import "ceiling/internal/sys"

// newAlarms makes n of them, in a channel to take them from and put them back: a timer of
// Go's runtime would plant another hold time than the one asked for.
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

// closeAlarms closes those that nobody has taken.
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
