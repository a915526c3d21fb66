/** Replicas that a fleet has room for, by the hour where fewer do: KEDA's cron triggers, of which the highest holds. */
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'

/** Replicas start before the hour that needs them: by the measured launch, rounded up. Assumed where none was measured of what is deployed. */
const assumedLeadMinutes = 5
const mostLeadMinutes = 30

const leadOf = ({ figures, evidence: { launchSeconds } }: Serving): number =>
  launchSeconds === undefined || !figures.hold ? assumedLeadMinutes : Math.min(mostLeadMinutes, Math.max(1, Math.ceil(launchSeconds / 60)))

/** A ScaledObject with a trigger for each span of hours that needs more than the least; nothing where all hours are alike. */
export function cronScaled(serving: Serving): Manifest[] {
  const { placed } = serving
  const least = Math.min(...(placed?.byHour ?? [Number.POSITIVE_INFINITY]))
  if (placed?.byHour === undefined || placed.byHour.every((count) => count === least)) return []
  return [
    {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'ScaledObject',
      metadata: { name: serving.name },
      spec: {
        scaleTargetRef: { name: serving.name },
        minReplicaCount: least,
        maxReplicaCount: placed.replicas,
        triggers: spansAbove(placed.byHour, least).map(({ from, to, replicas }) => ({
          type: 'cron',
          metadata: {
            timezone: placed.timezone,
            start: atMinute(from * 60 - leadOf(serving)),
            end: atMinute(to * 60),
            desiredReplicas: String(replicas),
          },
        })),
      },
    },
  ]
}

/** No slice is there for one more, so an update ends one first. */
export const placedStrategy: Manifest = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } }

export const roomNote =
  'the fleet has room for exactly these replicas: an update ends one before the next begins, and nothing else may ask for these slices'

/** What the reader of a placed deployment must know. */
/** @param scaled its replicas follow the hours, by KEDA */
export const placedNotes = (serving: Serving, scaled: boolean): string[] =>
  serving.placed === undefined
    ? []
    : [
        roomNote,
        ...(scaled
          ? [`needs KEDA: replicas follow the hours (${serving.placed.timezone}), each begun ${leadOf(serving)} min before its hour`]
          : []),
      ]

const hoursOfDay = 24
const atMinute = (minute: number): string => {
  const ofDay = (minute + hoursOfDay * 60) % (hoursOfDay * 60)
  return `${ofDay % 60} ${Math.floor(ofDay / 60)} * * *`
}

/** Spans of hours with the same count, over midnight too; those of the least left out. `to` may be above 24. */
function spansAbove(byHour: readonly number[], least: number): { readonly from: number; readonly to: number; readonly replicas: number }[] {
  // From an hour of the least no span goes over the end.
  const first = byHour.indexOf(least)
  const spans: { from: number; to: number; replicas: number }[] = []
  for (let hour = first; hour < first + hoursOfDay; hour++) {
    const replicas = byHour[hour % hoursOfDay]!
    const last = spans.at(-1)
    if (last?.to === hour && last.replicas === replicas) last.to = hour + 1
    else if (replicas > least) spans.push({ from: hour, to: hour + 1, replicas })
  }
  return spans
}
