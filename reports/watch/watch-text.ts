/** What a watch found, in lines for people. */
import { sloName, sloText } from '../../profiler/model/slo.ts'
import { money, percent, rate, significant } from '../format.ts'
import type { DriftView } from './drift.ts'
import { settlingHours } from './drift.ts'
import type { Proposal } from './replan.ts'
import type { Finding, Watched, Watching } from './watching.ts'

/** '2026-11-23 13:30 UTC' */
const stamp = (s: number): string =>
  `${new Date(s * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`

const ms = (value: number): string => `${significant(value)} ms`
const replicas = (n: number): string => `${n} ${n === 1 ? 'replica' : 'replicas'}`

/** One line: when, what production does, what is known of drift. */
export function statusLine(
  { state: { last }, drift, replicas: serving }: Watching,
  { slo, drift: { quietDays } }: Watched,
): string {
  if (!last) return 'nothing was seen yet'
  const { sloMs, errorShare, gpuShare } = last
  const parts = [
    `${rate(last.rateRps)}${serving === undefined ? '' : ` on ${replicas(serving)}`}`,
    sloMs === undefined
      ? `${sloName(slo)} not known`
      : `${sloName(slo)} ${ms(sloMs)} of ${ms(slo.limitMs)}`,
    ...(errorShare === undefined ? [] : [`errors ${percent(errorShare)}`]),
    ...(gpuShare === undefined ? [] : [`GPU ${percent(gpuShare)}`]),
  ]
  return `${stamp(last.fromS + last.seconds)}  ${parts.join(', ')}; ${driftText(drift, quietDays)}`
}

function driftText({ state, hours, slowness, evidenceDays }: DriftView, quietDays: number): string {
  if (state === 'settling')
    return `drift: ${hours} of ${settlingHours} hours of production that set the load curve right`
  if (slowness === undefined) return 'drift: no hour judged yet'
  const factor = `${significant(slowness)} times as long as measured`
  if (state === 'drifted') return `drift: ${factor}`
  const chance =
    evidenceDays < 1
      ? 'no evidence'
      : `seen once in ${Math.floor(evidenceDays)} quiet days, said at ${quietDays}`
  return `drift: none (${factor}; ${chance})`
}

export function findingText(finding: Finding, { slo, drift }: Watched): string {
  switch (finding.kind) {
    case 'slo': {
      const missed = [
        ...(finding.sloMs !== undefined && finding.sloMs > slo.limitMs
          ? [`${sloName(slo)} ${ms(finding.sloMs)}`]
          : []),
        ...(finding.errorShare !== undefined && finding.errorShare > slo.maxErrorRate
          ? [`${percent(finding.errorShare)} of requests fail`]
          : []),
      ]
      return `THE SLO IS BROKEN NOW: ${missed.join(', ') || 'missed'}, where ${sloText(slo)} with ${percent(slo.maxErrorRate)} of errors is asked; for ${finding.windows} windows in a row, ${significant(finding.minutes)} minutes`
    }
    case 'drift':
      return `CAPACITY DRIFT: requests take ${significant(finding.slowness)} times as long as measured, since ${stamp(finding.sinceS)} (established ${stamp(finding.establishedS)}); a server that has not changed looks so once in ${drift.quietDays} days on average, or more rarely`
    case 'traffic-over':
      return `TRAFFIC OFF THE PLAN: up to ${rate(finding.mostRps)}, where ${replicas(finding.replicas)} carry ${rate(finding.carriesRps)}; ${significant(finding.minutes)} of the last ${significant(finding.ofMinutes)} minutes`
    case 'traffic-under':
      return `TRAFFIC OFF THE PLAN: the busiest window of a week had ${rate(finding.peakRps)}, for which ${replicas(finding.needed)} are enough; ${finding.replicas} ran all the time (${money(finding.perHour)} per hour for nothing)`
    case 'version':
      return `NEW MODEL VERSION: ${finding.seen.join(', ')} serves, and ${finding.measured} was measured`
    case 'price-change':
      return `PRICE CHANGE: a replica costs ${money(finding.today)} per hour, and ${money(finding.stored)} when it was recommended`
  }
}

/** What to do. @param command the command that measures what is not known */
export function proposalText(proposal: Proposal, command: string): string {
  switch (proposal.kind) {
    case 'nothing':
      return `nothing to change: ${proposal.why}`
    case 'tune again':
      return `measure again: ${proposal.why}\n  ${command}`
    case 'change': {
      const { to, from } = proposal
      const there = `deploy ${replicas(to.replicas)} of trial ${to.trial} (${to.label}), ${money(to.perHour)} per hour`
      if (!from) return `${there}: what is deployed no longer meets the SLO at any rate`
      if (from.trial === to.trial) return `${there}: the same configuration, other replicas`
      return `${there}; of trial ${from.trial} (${from.label}), which is deployed, it takes ${replicas(from.replicas)}, ${money(from.perHour)} per hour`
    }
  }
}
