/** The capacity plan in words and tables, as JSON, and as CSV. */
import type { EChartsOption } from 'echarts'
import type { Slo } from '../../profiler/types.ts'
import { money, percent, rate, significant, sloValue } from '../format.ts'
import { latencyRows, rateRows } from '../recommendation/token-figures.ts'
import { demandOption } from '../report/charts/chart-options.ts'
import { type Cell, csv } from '../report/csv.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import { peakOf } from './demand.ts'
import type { FleetOutcome } from './fleet.ts'
import type { Plan, UnitPlan } from './plan-capacity.ts'
import { hoursPerMonth } from './plan-costs.ts'

/** Most rows of a table that lists changes. */
const shown = 8

/** `chart`: renders chart options to SVG; absent: no charts. */
export async function planBlocks(
  plan: Plan,
  about: readonly string[],
  chart?: (option: EChartsOption) => Promise<string>,
): Promise<Block[]> {
  const best = plan.units[0]!
  const first = best.months[0]!
  const carries = first.replicas * best.unit.capacityRps
  return [
    heading(1, 'Capacity plan'),
    { kind: 'paragraph', strong: true, text: verdict(plan) },
    ...list(about),
    ...(chart
      ? [
          {
            kind: 'chart' as const,
            svg: await chart(demandOption(plan.demand, carries, `${first.replicas} replicas carry`)),
            alt: `Demand over one period: from ${rate(Math.min(...plan.demand.rps))} to ${rate(peakOf(plan.demand))}; ${first.replicas} replicas carry ${rate(carries)}.`,
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
        'SLO broken while scaling',
      ],
      plan.units.map((unit) => fleetRow(unit, plan.input.slo)),
      [2, 3, 4, 5, 6, 7, 8],
    ),
    ...tokenBlocks(best),
    ...(plan.input.months > 1 ? growthBlocks(best) : []),
    ...existingBlocks(plan),
    ...priceBlocks(plan),
    ...breakEvenBlocks(plan),
    heading(2, 'How this was reckoned'),
    ...list(assumptions(plan)),
  ]
}

function verdict({ units, input, demand }: Plan): string {
  const [best] = units
  const month = best!.months[0]!
  const follower = units.reduce((a, b) => (b.autoscaledTotal < a.autoscaledTotal ? b : a))
  const total = input.months > 1 ? ` (${money(best!.staticTotal)} over ${input.months} months)` : ''
  const price = money(follower.months[0]!.autoscaledPerMonth)
  const other = follower === best ? `, or ${price} when autoscaled` : `; autoscaled, ${follower.unit.label} costs ${price}`
  const auto = follower.autoscaledTotal < best!.staticTotal * 0.98 ? other : ''
  const cheapest = units.reduce((a, b) => (b.months[0]!.staticPerMonth < a.months[0]!.staticPerMonth * 0.98 ? b : a))
  const rival =
    cheapest === best
      ? ''
      : `; for this demand ${cheapest.unit.label} (${cheapest.unit.status}) costs ${money(cheapest.months[0]!.staticPerMonth)}`
  return `${best!.unit.label}: ${month.replicas} replica${month.replicas === 1 ? '' : 's'} for ${demand.what}, ${money(month.staticPerMonth)} per month${total}${auto}${rival}`
}

function fleetRow({ unit, months }: UnitPlan, slo: Slo): string[] {
  const m = months[0]!
  return [
    unit.label,
    unit.status,
    String(m.replicas),
    percent(m.utilisation),
    m.sloMsAtPeak === undefined ? '' : sloValue(slo, m.sloMsAtPeak),
    money(m.staticPerMonth),
    money(m.withSparePerMonth),
    money(m.autoscaledPerMonth),
    `${m.autoscaled.leastReplicas} to ${m.autoscaled.mostReplicas}`,
    broken(m.autoscaled),
  ]
}

function broken(outcome: FleetOutcome): string {
  if (outcome.brokenTime === 0) return 'never'
  const hours = outcome.brokenHours
  const when = hours.length > 8 ? `in ${hours.length} hours of the day` : `in hour${hours.length === 1 ? '' : 's'} ${hours.join(', ')}`
  return `${percent(outcome.brokenTime)} of the time, ${percent(outcome.brokenRequests)} of requests, ${when}`
}

/** What the demand is in tokens, and what the streams of one replica are like. */
function tokenBlocks({ unit: { label, tokens }, months: [first] }: UnitPlan): Block[] {
  if (tokens === undefined || first?.outputTokensPerSecond === undefined) return []
  const { inputTokensPerSecond, outputTokensPerSecond, staticPerMillionOutputTokens } = first
  const input = inputTokensPerSecond === undefined ? '' : ` and ${significant(inputTokensPerSecond)} input tokens`
  const price =
    staticPerMillionOutputTokens === undefined
      ? ''
      : `: ${money(staticPerMillionOutputTokens)} per million output tokens on the static fleet, its idle hours paid for`
  return [
    heading(2, 'Tokens, month 1'),
    ...list([
      `the mean demand is ${significant(outputTokensPerSecond)} output${input} a second${price}`,
      `one replica of ${label}: ${rateRows(tokens)
        .map(([title, value]) => `${title} ${value}`)
        .join('; ')}`,
    ]),
    ...table([`at ${rate(tokens.windowRps)}`, 'p50', 'p90', 'p99'], latencyRows(tokens), [1, 2, 3]),
  ]
}

function growthBlocks({ unit, months }: UnitPlan): Block[] {
  return [
    heading(2, `Growth: ${unit.label}`),
    ...table(
      ['month', 'peak', 'replicas', 'static / month', 'autoscaled / month'],
      months.map((m) => [String(m.month), rate(m.peakRps), String(m.replicas), money(m.staticPerMonth), money(m.autoscaledPerMonth)]),
      [0, 1, 2, 3, 4],
    ),
  ]
}

function existingBlocks({ existing, input }: Plan): Block[] {
  if (!existing) return []
  const fails = existing.underDemand.find((m) => m.outcome.brokenTime > 0)
  return [
    heading(2, `The fleet there is: ${existing.replicas} x ${existing.label}`),
    ...list([
      `carries ${rate(existing.carriesRps)} with ${percent(input.headroom)} headroom, ${rate(existing.atMostRps)} at most, ${rate(existing.withOneLostRps)} with one replica lost`,
      `costs ${money(existing.perMonth)} per month`,
      fails
        ? `breaks the SLO from month ${fails.month} on: ${broken(fails.outcome)}`
        : `keeps the SLO in all ${input.months} month${input.months === 1 ? '' : 's'}`,
    ]),
  ]
}

function priceBlocks({ units, input }: Plan): Block[] {
  const best = units[0]!
  const n = best.months[0]!.replicas
  const { cpuCores, gpu, gpus, gpuShare } = best.unit.resources
  const held = gpu ? `, ${significant(n * gpus * gpuShare)} ${gpu}` : ''
  const clouds = best.clouds.map((c) => [c.cloud, c.purchase, `${c.count} x ${c.instance}`, String(c.replicasEach), money(c.perMonth)])
  return [
    heading(2, `What ${n} x ${best.unit.label} costs and holds`),
    ...list([
      `${significant(n * cpuCores)} core${n * cpuCores === 1 ? '' : 's'}${held}`,
      ...best.byPriceList.map(
        (p) => `price list "${p.name}": ${p.currency === 'USD' ? money(p.perMonth) : `${significant(p.perMonth)} ${p.currency}`} per month`,
      ),
      ...(best.sharingSavesPerMonth === undefined
        ? []
        : [`sharing the GPU saves ${money(best.sharingSavesPerMonth)} per month against whole ones`]),
      `one replica to spare (N+1): ${n + 1} replicas, ${money(best.months[0]!.withSparePerMonth)} per month`,
      `standing the loss of one of ${input.zones} zones: ${best.zoneReplicas} replicas, ${money(best.zonePerMonth)} per month`,
    ]),
    ...table(['cloud', 'bought', 'instances', 'replicas on each', 'per month'], clouds, [3, 4]),
  ]
}

function breakEvenBlocks({ breakEven, units }: Plan): Block[] {
  if (units.length < 2) return []
  const rows = breakEven.slice(0, shown).map((b) => [b.fromRps === 0 ? 'any' : rate(b.fromRps), b.label, money(b.pricePerHour)])
  const last = breakEven.at(-1)!
  return [
    heading(2, 'Which is cheapest as demand grows'),
    ...table(['from', 'configuration', 'per hour there'], rows, [0, 2]),
    ...(breakEven.length > shown
      ? [
          paragraph(
            `${breakEven.length} changes in all, for whole replicas make stairs; from ${rate(last.fromRps)} on it stays ${last.label}.`,
          ),
        ]
      : []),
  ]
}

function assumptions({ input, units }: Plan): string[] {
  const launch = units.map((u) => `${significant(u.unit.launchSeconds)} s`)
  return [
    `A month has 30 days (${hoursPerMonth} hours); the period repeats; ${percent(input.growthPerMonth)} growth per month.`,
    `Replicas = demand / (capacity x (1 - headroom ${percent(input.headroom)})), rounded up. Capacity is the highest rate at which one replica keeps the SLO; its status says how far that can be relied on.`,
    'Replicas share the demand evenly; each answers as its own measured load curve says. No credit is taken for the smoothing that pooling brings.',
    `Autoscaling: ordered ${input.reactionSeconds} s after the need arises, serving after the measured launch and wait for a node (${[...new Set(launch)].join(', ')}), taken away after ${input.scaleDownSeconds} s without need; paid from order to end.`,
    'Cloud instances: list prices; replicas fill instances by GPU share, cores and memory, none kept back for the system. Spot prices move: give yours with --prices.',
  ]
}

/** One row per configuration and month. */
export function planCsv({ units }: Plan): string {
  const head = [
    'trial',
    'configuration',
    'status',
    'month',
    'peak_rps',
    'mean_rps',
    'replicas',
    'utilisation',
    'slo_ms_at_peak',
    'static_per_month',
    'with_spare_per_month',
    'autoscaled_per_month',
    'autoscaled_mean_replicas',
    'autoscaled_broken_time',
    'autoscaled_broken_requests',
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
      m.utilisation,
      m.sloMsAtPeak,
      m.staticPerMonth,
      m.withSparePerMonth,
      m.autoscaledPerMonth,
      m.autoscaled.meanReplicas,
      m.autoscaled.brokenTime,
      m.autoscaled.brokenRequests,
      m.outputTokensPerSecond,
      m.inputTokensPerSecond,
      m.staticPerMillionOutputTokens,
    ]),
  )
  return csv(head, rows)
}

/** 'tune.plan/v1': every figure of the plan, without the load curves. */
export function planJson(plan: Plan): string {
  const units = plan.units.map(({ unit: { curve: _, ...unit }, ...rest }) => ({ ...unit, ...rest }))
  const { units: __, demand: ___, ...settings } = plan.input
  return `${JSON.stringify({ schema: 'tune.plan/v1', demand: plan.demand, settings, units, breakEven: plan.breakEven, existing: plan.existing }, null, 2)}\n`
}
