/** The findings of a watch, in lines for people. */
import { sloName, sloText } from '../../profiler/model/slo.ts'
import { money, percent, rate, significant } from '../format.ts'
import type { DriftSummary } from './drift.ts'
import { calibrationHours } from './drift.ts'
import type { Proposal } from './replan.ts'
import type { Finding, WatchReport, WatchTarget } from './watch.ts'

/** '2026-11-23 13:30 UTC' */
const formatTime = (s: number): string =>
  `${new Date(s * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`

const ms = (value: number): string => `${significant(value)} ms`
const replicas = (n: number): string => `${n} ${n === 1 ? 'replica' : 'replicas'}`

/** One line: time, production metrics, drift. */
export function formatStatus(
  { state: { last }, drift, replicas: serving }: WatchReport,
  { slo, drift: { falseAlarmDays } }: WatchTarget,
): string {
  if (!last) return 'no production data yet'
  const { sloMs, errorShare, gpuShare } = last
  const parts = [
    `${rate(last.rateRps)}${serving === undefined ? '' : ` on ${replicas(serving)}`}`,
    sloMs === undefined
      ? `${sloName(slo)} unknown`
      : `${sloName(slo)} ${ms(sloMs)} of ${ms(slo.limitMs)}`,
    ...(errorShare === undefined ? [] : [`errors ${percent(errorShare)}`]),
    ...(gpuShare === undefined ? [] : [`GPU ${percent(gpuShare)}`]),
  ]
  return `${formatTime(last.fromS + last.seconds)}  ${parts.join(', ')}; ${formatDrift(drift, falseAlarmDays)}`
}

function formatDrift(
  { state, hours, slowness, evidenceDays }: DriftSummary,
  falseAlarmDays: number,
): string {
  if (state === 'settling')
    return `drift: calibrating the load curve, ${hours} of ${calibrationHours} hours of production`
  if (slowness === undefined) return 'drift: no complete hour yet'
  const factor = `${significant(slowness)} times as long as measured`
  if (state === 'drifted') return `drift: ${factor}`
  const chance =
    evidenceDays < 1
      ? 'no evidence'
      : `expected by chance every ${Math.floor(evidenceDays)} days, alarm at ${falseAlarmDays}`
  return `drift: none (${factor}; ${chance})`
}

export function formatFinding(finding: Finding, { slo, drift }: WatchTarget): string {
  switch (finding.kind) {
    case 'slo': {
      const figures = [
        ...(finding.sloMs !== undefined && finding.sloMs > slo.limitMs
          ? [`${sloName(slo)} ${ms(finding.sloMs)}`]
          : []),
        ...(finding.errorShare !== undefined && finding.errorShare > slo.maxErrorRate
          ? [`${percent(finding.errorShare)} of requests fail`]
          : []),
      ]
      return `SLO VIOLATED NOW: ${figures.join(', ') || 'violated'} (SLO ${sloText(slo)}, at most ${percent(slo.maxErrorRate)} errors), for ${finding.windows} consecutive windows, ${significant(finding.minutes)} minutes`
    }
    case 'drift':
      return `CAPACITY DRIFT: requests take ${significant(finding.slowness)} times as long as measured, since ${formatTime(finding.sinceS)} (detected ${formatTime(finding.establishedS)}); false alarms are at least ${drift.falseAlarmDays} days apart on average`
    case 'traffic-over':
      return `TRAFFIC ABOVE PLAN: up to ${rate(finding.peakRps)}, but ${replicas(finding.replicas)} carry only ${rate(finding.carriesRps)}; ${significant(finding.minutes)} of the last ${significant(finding.ofMinutes)} minutes`
    case 'traffic-under':
      return `TRAFFIC BELOW PLAN: the busiest window of the week had ${rate(finding.peakRps)}, which needs ${replicas(finding.needed)}; ${finding.replicas} ran all the time (${money(finding.perHour)} per hour too much)`
    case 'version':
      return `NEW MODEL VERSION: ${finding.seen.join(', ')} is deployed, but ${finding.measured} was measured`
    case 'price-change':
      return `PRICE CHANGE: a replica costs ${money(finding.today)} per hour, but cost ${money(finding.stored)} when it was recommended`
  }
}

/**
 * Formats what to do next.
 * @param command command that measures again
 */
export function formatProposal(proposal: Proposal, command: string): string {
  switch (proposal.kind) {
    case 'nothing':
      return `nothing to change: ${proposal.why}`
    case 'tune again':
      return `measure again: ${proposal.why}\n  ${command}`
    case 'change': {
      const { to, from } = proposal
      const deployment = `deploy ${replicas(to.replicas)} of trial ${to.trial} (${to.label}), ${money(to.perHour)} per hour`
      if (!from)
        return `${deployment}: the deployed configuration no longer meets the SLO at any rate`
      if (from.trial === to.trial)
        return `${deployment}: same configuration, new number of replicas`
      return `${deployment}; the deployed trial ${from.trial} (${from.label}) would need ${replicas(from.replicas)}, ${money(from.perHour)} per hour`
    }
  }
}
