/** Renders the capacity plan as text and tables, JSON, and CSV. */
import type { EChartsOption } from 'echarts'
import { type Cell, formatCsv } from '../../trials/csv.ts'
import { type Block, heading, list, paragraph, table } from '../document/blocks.ts'
import { createDemandOption } from '../document/chart-options.ts'
import { money, percent, rate, significant, sloValue } from '../format.ts'
import { describeStatus } from '../recommendation/describe-status.ts'
import { formatWindow, listLatencyRows, rateRows } from '../recommendation/token-text.ts'
import { findMinRps, findPeakRps } from './demand.ts'
import type { FleetOutcome } from './fleet.ts'
import { defaultBehaviour, syncSeconds, tolerance } from './hpa.ts'
import type { ScaledFleet } from './lossless.ts'
import type { Plan, PlanInput, UnitPlan } from './plan-capacity.ts'
import { hoursPerMonth } from './plan-costs.ts'

/** Maximum number of rows of a table that lists changes. */
const maxRowsShown = 8

/**
 * @param about lines on the input, below the verdict
 * @param chart renders chart options to SVG; absent: no charts
 */
export async function renderPlan(
  plan: Plan,
  about: readonly string[],
  chart?: (option: EChartsOption) => Promise<string>,
): Promise<Block[]> {
  const best = plan.units[0]!
  const first = best.months[0]!
  const carriedRps = first.replicas * best.unit.capacityRps
  return [
    heading(1, 'Capacity plan'),
    { kind: 'paragraph', strong: true, text: formatVerdict(plan) },
    ...list(about),
    ...(chart
      ? [
          {
            kind: 'chart' as const,
            svg: await chart(
              createDemandOption(plan.demand, carriedRps, `${first.replicas} replicas carry`),
            ),
            alt: `Demand over one period: from ${rate(findMinRps(plan.demand))} to ${rate(findPeakRps(plan.demand))}; ${first.replicas} replicas carry ${rate(carriedRps)}.`,
          },
        ]
      : []),
    heading(2, 'Fleets, month 1'),
    ...table(
      [
        'configuration',
        'status',
        'replicas',
        'utilised',
        'at peak',
        'static / month',
        'with a spare',
        'autoscaled / month',
        'autoscaled replicas',
        'minutes of SLO violation while scaling',
      ],
      plan.units.map((unit) => createFleetRow(unit, plan.input)),
      [2, 3, 4, 5, 6, 7, 8],
    ),
    ...createScalingBlocks(plan),
    ...createTokenBlocks(best),
    ...(plan.input.months > 1 ? createGrowthBlocks(best) : []),
    ...createExistingBlocks(plan),
    ...createPriceBlocks(plan),
    ...createCommitmentBlocks(plan),
    ...createBreakEvenBlocks(plan),
    heading(2, 'Assumptions'),
    ...list(listAssumptions(plan)),
  ]
}

/** Another plan is named only if it costs at least 2 % less. Assumed. */
const notableSaving = 0.02

function formatVerdict({ units, input, demand, scaling, commitment }: Plan): string {
  const [best] = units
  const month = best!.months[0]!
  const totalText =
    input.months > 1 ? ` (${money(best!.staticTotal)} over ${input.months} months)` : ''
  const autoscaledPerMonth = scaling.lossless?.perMonth ?? Number.POSITIVE_INFINITY
  const autoscaledText =
    autoscaledPerMonth < month.staticPerMonth * (1 - notableSaving)
      ? `, or ${money(autoscaledPerMonth)} when autoscaled without SLO violations`
      : ''
  const committedPerMonth = commitment?.perMonth ?? Number.POSITIVE_INFINITY
  const committedText =
    committedPerMonth < Math.min(autoscaledPerMonth, month.staticPerMonth) * (1 - notableSaving)
      ? `, or ${money(committedPerMonth)} with committed capacity`
      : ''
  const cheapest = units.reduce((a, b) =>
    b.months[0]!.staticPerMonth < a.months[0]!.staticPerMonth * (1 - notableSaving) ? b : a,
  )
  const rivalText =
    cheapest === best
      ? ''
      : `; for this demand ${cheapest.unit.label} (${describeStatus(cheapest.unit.status, input.provenance).name}) costs ${money(cheapest.months[0]!.staticPerMonth)}`
  return `${best!.unit.label}: ${month.replicas} replica${month.replicas === 1 ? '' : 's'} for ${demand.what}, ${money(month.staticPerMonth)} per month${totalText}${autoscaledText}${committedText}${rivalText}`
}

function createCommitmentBlocks({ commitment, units }: Plan): Block[] {
  if (!commitment) return []
  const { offer, committed, minOnDemand, maxOnDemand } = commitment
  const { committedPerHour, onDemandPerHour } = offer
  const onDemand = minOnDemand === maxOnDemand ? maxOnDemand : `${minOnDemand} to ${maxOnDemand}`
  const instanceText =
    offer.instance === undefined
      ? 'single replicas'
      : `${offer.instance}, ${offer.replicasEach} replica${offer.replicasEach === 1 ? '' : 's'} per instance`
  const breakEvenTexts =
    committedPerHour === undefined
      ? []
      : [
          `committing to an instance pays off if it is needed more than ${percent(committedPerHour / onDemandPerHour)} of the time (${money(committedPerHour)}/h committed, ${money(onDemandPerHour)}/h on demand); a commitment lasts longer than a month, so check the later months too`,
        ]
  return [
    heading(2, `Committed capacity for ${units[0]!.unit.label}, month 1`),
    ...list([
      `${committed} committed and ${onDemand} on demand, of ${instanceText}: ${money(commitment.committedPerMonth)} and ${money(commitment.onDemandPerMonth)} a month, ${money(commitment.perMonth)} in total`,
      `all on demand ${money(commitment.allOnDemandPerMonth)} a month, all committed ${money(commitment.allCommittedPerMonth)}`,
      ...breakEvenTexts,
    ]),
  ]
}

function createFleetRow({ unit, months }: UnitPlan, { slo, provenance }: PlanInput): string[] {
  const month = months[0]!
  return [
    unit.label,
    describeStatus(unit.status, provenance).name,
    String(month.replicas),
    percent(month.utilisation),
    month.sloMsAtPeak === undefined ? '' : sloValue(slo, month.sloMsAtPeak),
    money(month.staticPerMonth),
    money(month.withSparePerMonth),
    money(month.autoscaledPerMonth),
    `${month.autoscaled.minReplicas} to ${month.autoscaled.maxReplicas}`,
    formatLostMinutes(month.autoscaled),
  ]
}

function formatLostMinutes({
  lostMinutes,
  minutes,
  lostHours,
  overLimitShare,
}: FleetOutcome): string {
  if (lostMinutes === 0) return 'none'
  const when =
    lostHours.length > 8
      ? `in ${lostHours.length} hours of the day`
      : `in hour${lostHours.length === 1 ? '' : 's'} ${lostHours.join(', ')}`
  return `${lostMinutes} of ${minutes} minutes (${percent(lostMinutes / minutes)}), ${percent(overLimitShare)} of requests over the limit, ${when}`
}

/** Describes autoscaling with the settings of the spec, and with those without SLO violations. */
function createScalingBlocks({
  scaling: { given, countedBefore, lossless },
  units,
  input,
}: Plan): Block[] {
  const { unit, months } = units[0]!
  const { replicas, replicasOverPeriod, staticPerMonth, autoscaledPerMonth } = months[0]!
  const allowed = `${percent(1 - input.slo.percentile)} of requests may be over the limit`
  const createRow = (name: string, { settings, outcome }: ScaledFleet, perMonth: number) => [
    name,
    rate(settings.targetRps),
    String(settings.minReplicas),
    settings.behaviour === defaultBehaviour ? "Kubernetes' own" : 'by the start-up time',
    `${outcome.minReplicas} to ${outcome.maxReplicas}`,
    formatLostMinutes(outcome),
    money(perMonth),
  ]
  const headings = [
    'settings',
    'target per replica',
    'minimum replicas',
    'pace',
    'replicas',
    'minutes of SLO violation',
    'per month',
  ]
  return [
    heading(2, `Autoscaling ${unit.label}, month 1`),
    ...table(
      headings,
      [
        createRow('as configured', given, autoscaledPerMonth),
        ...(lossless ? [createRow('no violations', lossless, lossless.perMonth)] : []),
      ],
      [1, 2, 6],
    ),
    ...list([
      lossless
        ? `the settings without violations use at most ${lossless.settings.maxReplicas} replicas and save ${money(staticPerMonth - lossless.perMonth)} per month compared with ${replicas} fixed replicas; --spec FOLDER writes them into a manifest if the deployed server was measured`
        : `no autoscaler settings avoid SLO violations and cost less than ${replicas} fixed replicas (${money(staticPerMonth)})`,
      ...(given.outcome.lostMinutes === countedBefore.outcome.lostMinutes
        ? []
        : [
            `the replicas' own counters do not include waiting requests; if a gateway counted all requests, the configured settings would violate the SLO in ${formatLostMinutes(countedBefore.outcome)}`,
          ]),
      ...(replicas === 1
        ? []
        : [
            replicasOverPeriod < replicas
              ? `over the whole period (${allowed}), ${replicasOverPeriod} fixed replicas would be enough`
              : `fewer fixed replicas violate the SLO even over the whole period (${allowed})`,
          ]),
    ]),
  ]
}

/** Describes the demand in tokens, and the streamed answers of one replica. */
function createTokenBlocks({ unit: { label, tokens }, months: [first] }: UnitPlan): Block[] {
  if (tokens === undefined || first?.outputTokensPerSecond === undefined) return []
  const { inputTokensPerSecond, outputTokensPerSecond, staticPerMillionOutputTokens } = first
  const input =
    inputTokensPerSecond === undefined
      ? ''
      : ` and ${significant(inputTokensPerSecond)} input tokens`
  const price =
    staticPerMillionOutputTokens === undefined
      ? ''
      : `: ${money(staticPerMillionOutputTokens)} per million output tokens on the static fleet, including idle hours`
  const windowHeading = formatWindow(tokens)
  return [
    heading(2, 'Tokens, month 1'),
    ...list([
      `the mean demand is ${significant(outputTokensPerSecond)} output${input} per second${price}`,
      `one replica of ${label}: ${rateRows(tokens)
        .map(([title, value]) => `${title} ${value}`)
        .join('; ')}`,
    ]),
    ...(windowHeading === undefined
      ? []
      : table([windowHeading, 'p50', 'p90', 'p99'], listLatencyRows(tokens), [1, 2, 3])),
  ]
}

function createGrowthBlocks({ unit, months }: UnitPlan): Block[] {
  return [
    heading(2, `Growth: ${unit.label}`),
    ...table(
      ['month', 'peak', 'replicas', 'static / month', 'autoscaled / month'],
      months.map((m) => [
        String(m.month),
        rate(m.peakRps),
        String(m.replicas),
        money(m.staticPerMonth),
        money(m.autoscaledPerMonth),
      ]),
      [0, 1, 2, 3, 4],
    ),
  ]
}

function createExistingBlocks({ existing, input }: Plan): Block[] {
  if (!existing) return []
  const firstFailure = existing.underDemand.find((m) => m.outcome.lostMinutes > 0)
  return [
    heading(2, `Current fleet: ${existing.replicas} x ${existing.label}`),
    ...list([
      `carries ${rate(existing.carriesRps)} with ${percent(input.headroom)} headroom, ${rate(existing.atMostRps)} at most, ${rate(existing.withOneLostRps)} with one replica lost`,
      `costs ${money(existing.perMonth)} per month`,
      firstFailure
        ? `violates the SLO from month ${firstFailure.month}: ${formatLostMinutes(firstFailure.outcome)}`
        : `meets the SLO in all ${input.months} month${input.months === 1 ? '' : 's'}`,
    ]),
  ]
}

function createPriceBlocks({ units, input }: Plan): Block[] {
  const best = units[0]!
  const replicas = best.months[0]!.replicas
  const { cpuCores, gpu, gpus, gpuShare } = best.unit.resources
  const gpuText = gpu ? `, ${significant(replicas * gpus * gpuShare)} ${gpu}` : ''
  const clouds = best.clouds.map((c) => [
    c.cloud,
    c.purchase,
    `${c.count} x ${c.instance}`,
    String(c.replicasEach),
    money(c.perMonth),
  ])
  return [
    heading(2, `Cost and resources of ${replicas} x ${best.unit.label}`),
    ...list([
      `${significant(replicas * cpuCores)} core${replicas * cpuCores === 1 ? '' : 's'}${gpuText}`,
      ...best.byPriceList.map(
        (p) =>
          `price list "${p.name}": ${p.currency === 'USD' ? money(p.perMonth) : `${significant(p.perMonth)} ${p.currency}`} per month`,
      ),
      ...(best.sharingSavesPerMonth === undefined
        ? []
        : [
            `sharing the GPU saves ${money(best.sharingSavesPerMonth)} per month compared with whole GPUs`,
          ]),
      `with one spare replica (N+1): ${replicas + 1} replicas, ${money(best.months[0]!.withSparePerMonth)} per month`,
      `to survive the loss of one of ${input.zones} zones: ${best.zoneReplicas} replicas, ${money(best.zonePerMonth)} per month`,
    ]),
    ...table(
      ['cloud', 'bought', 'instances', 'replicas per instance', 'per month'],
      clouds,
      [3, 4],
    ),
  ]
}

function createBreakEvenBlocks({ breakEven, units }: Plan): Block[] {
  if (units.length < 2) return []
  const rows = breakEven
    .slice(0, maxRowsShown)
    .map((b) => [b.fromRps === 0 ? 'any' : rate(b.fromRps), b.label, money(b.pricePerHour)])
  const last = breakEven.at(-1)!
  return [
    heading(2, 'Which is cheapest as demand grows'),
    ...table(['from', 'configuration', 'per hour there'], rows, [0, 2]),
    ...(breakEven.length > maxRowsShown
      ? [
          paragraph(
            `${breakEven.length} changes in total, because replicas are whole numbers; from ${rate(last.fromRps)}, ${last.label} stays the cheapest.`,
          ),
        ]
      : []),
  ]
}

function listAssumptions({ input, units, demand }: Plan): string[] {
  const { timeoutSeconds, reactionSeconds } = input.surroundings
  const [{ startupSeconds, nodeSeconds, replicasPerNode }] = [units[0]!.unit]
  return [
    `A month has 30 days (${hoursPerMonth} hours); the period repeats; ${percent(input.growthPerMonth)} growth per month.${demand.beginsAtS === undefined ? '' : ` Hours of the day are ${demand.isLocalTime ? 'those of the trace' : 'in UTC'}.`}`,
    `Replicas are the minimum that meets the SLO in every minute of the period, for the demand divided by (1 - headroom ${percent(input.headroom)}). A minute counts as an SLO violation when more of its requests than the percentile allows exceed the limit. Each replica carries its safe capacity.`,
    `Demand follows the given rates, without noise. Replicas share it evenly. Below saturation, latency follows the measured load curve with an exponential tail; above it, requests queue at the replica until clients time out after ${significant(timeoutSeconds)} s. Pooling effects are ignored.`,
    `Autoscaling follows Kubernetes: every ${syncSeconds} s, it compares the target with the one-minute mean of ${input.minReplicas === 0 ? 'incoming requests (counted at a gateway)' : 'answered requests'}, ${reactionSeconds} s old; it ignores deviations within ${percent(tolerance)} and applies stabilisation windows and policies. If a node has room, a replica serves ${significant(startupSeconds)} s after it is requested${nodeSeconds > 0 ? `; otherwise a new node takes ${significant(nodeSeconds)} s more. A node has room for ${replicasPerNode}, costs its full price, and is removed after 10 idle minutes` : ''}.`,
    'Cloud instances have list prices. Replicas fill them by GPU share, cores and memory; nothing is reserved for the system. Pass other commitment prices with --committed.',
  ]
}

/** One row per configuration and month. */
export function formatPlanCsv({ units }: Plan): string {
  const head = [
    'trial',
    'configuration',
    'status',
    'month',
    'peak_rps',
    'mean_rps',
    'replicas',
    'replicas_over_period',
    'utilisation',
    'slo_ms_at_peak',
    'static_per_month',
    'with_spare_per_month',
    'autoscaled_per_month',
    'autoscaled_mean_replicas',
    'autoscaled_lost_minutes',
    'autoscaled_over_limit',
    'output_tokens_per_second',
    'input_tokens_per_second',
    'static_per_million_output_tokens',
  ]
  const rows = units.flatMap(({ unit, months }) =>
    months.map((m): Cell[] => [
      unit.trial,
      unit.label,
      unit.status,
      m.month,
      m.peakRps,
      m.meanRps,
      m.replicas,
      m.replicasOverPeriod,
      m.utilisation,
      m.sloMsAtPeak,
      m.staticPerMonth,
      m.withSparePerMonth,
      m.autoscaledPerMonth,
      m.autoscaled.meanReplicas,
      m.autoscaled.lostMinutes,
      m.autoscaled.overLimitShare,
      m.outputTokensPerSecond,
      m.inputTokensPerSecond,
      m.staticPerMillionOutputTokens,
    ]),
  )
  return formatCsv(head, rows)
}

/** 'tune.plan/v1': every figure of the plan, without the load curves. */
export function formatPlanJson(plan: Plan): string {
  const units = plan.units.map(({ unit: { curve: _, ...unit }, ...rest }) => ({ ...unit, ...rest }))
  const { units: __, demand: ___, ...settings } = plan.input
  return `${JSON.stringify({ schema: 'tune.plan/v1', demand: plan.demand, settings, units, scaling: plan.scaling, commitment: plan.commitment, breakEven: plan.breakEven, existing: plan.existing }, null, 2)}\n`
}
