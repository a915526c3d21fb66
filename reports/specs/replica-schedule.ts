/** Replicas of a fleet by the hour of the day, with KEDA's cron triggers. */
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'

/**
 * Replicas start before the hour that needs them: by the measured launch, rounded up. Assumed where
 * none was measured of what is deployed.
 */
const assumedLeadMinutes = 5
const maxLeadMinutes = 30

const computeLeadMinutes = ({ figures, evidence: { launchSeconds } }: Serving): number =>
  launchSeconds === undefined || !figures.hold
    ? assumedLeadMinutes
    : Math.min(maxLeadMinutes, Math.max(1, Math.ceil(launchSeconds / 60)))

/**
 * A ScaledObject with a trigger for each span of time that needs more than the least; nothing where
 * all are alike.
 */
export function buildCronScaler(serving: Serving): Manifest[] {
  const { replicaPlan } = serving
  const counts = replicaPlan?.byHour ?? []
  const least = Math.min(...counts)
  if (replicaPlan === undefined || counts.every((count) => count === least)) return []
  const stepMinutes = (hoursOfDay * 60) / counts.length
  return [
    {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'ScaledObject',
      metadata: { name: serving.name },
      spec: {
        scaleTargetRef: { name: serving.name },
        minReplicaCount: least,
        maxReplicaCount: replicaPlan.replicas,
        triggers: findSpansAbove(counts, least).map(({ from, to, replicas }) => ({
          type: 'cron',
          metadata: {
            timezone: replicaPlan.timezone,
            start: formatCron(from * stepMinutes - computeLeadMinutes(serving)),
            end: formatCron(to * stepMinutes),
            desiredReplicas: String(replicas),
          },
        })),
      },
    },
  ]
}

/** There is no room for one replica more, so an update ends one first. */
export const fullFleetStrategy: Manifest = {
  type: 'RollingUpdate',
  rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
}

export const fullFleetNote =
  'the fleet has room for exactly these replicas: an update stops a replica before it starts the next, and no other pod may request these GPU slices'

/** Notes on a deployment of a fleet. @param isScheduled KEDA sets its replicas by the hour */
export function describeSchedule(serving: Serving, isScheduled: boolean): string[] {
  const { replicaPlan } = serving
  if (replicaPlan === undefined) return []
  const claimNotes = replicaPlan.claim
    ? [
        `it shares its GPU through the claim ${replicaPlan.claim} in shared/: MPS limits each process by CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`,
      ]
    : []
  return [
    fullFleetNote,
    ...claimNotes,
    ...(isScheduled
      ? [
          `needs KEDA, which sets the replicas by the hour (${replicaPlan.timezone}), each change ${computeLeadMinutes(serving)} min before its hour`,
        ]
      : []),
  ]
}

const hoursOfDay = 24
const formatCron = (minute: number): string => {
  const minuteOfDay = (minute + hoursOfDay * 60) % (hoursOfDay * 60)
  return `${minuteOfDay % 60} ${Math.floor(minuteOfDay / 60)} * * *`
}

/**
 * Spans of the day with the same count, over midnight too, in its parts; those of the least left
 * out. `to` may be above their number.
 */
function findSpansAbove(
  counts: readonly number[],
  least: number,
): { readonly from: number; readonly to: number; readonly replicas: number }[] {
  // From one of the least on no span goes over the end.
  const firstLeast = counts.indexOf(least)
  const spans: { from: number; to: number; replicas: number }[] = []
  for (let step = firstLeast; step < firstLeast + counts.length; step++) {
    const replicas = counts[step % counts.length]!
    const last = spans.at(-1)
    if (last?.to === step && last.replicas === replicas) last.to = step + 1
    else if (replicas > least) spans.push({ from: step, to: step + 1, replicas })
  }
  return spans
}
