/** Charts of parameter importance and effects, history, predictions and timeline. Pure. */
import { getObjectiveUnit, type Objective, toDisplayedCost } from '../../../search/objective.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { HistoryPoint } from '../data/analysis.ts'
import type { Effect, Range } from '../data/importance.ts'
import {
  type ChartOption,
  createAxis,
  createBase,
  createLegend,
  createLogAxis,
  createYAxis,
  formatCompact,
  pickColour,
  pickSymbol,
  type Theme,
} from './theme.ts'

export type Api = { value(i: number): number; coord(at: number[]): number[] }

/** Bars with their 90 % interval, most important on top. */
export function createImportanceOption(effects: readonly Effect[], theme: Theme): ChartOption {
  const rows = [...effects].reverse()
  return {
    ...createBase(theme),
    grid: { left: 8, right: 24, top: 12, bottom: 48, containLabel: true },
    xAxis: {
      type: 'value',
      min: 0,
      max: 1,
      ...createAxis('share of the variation of capacity', theme, {
        axisLabel: {
          color: theme.muted,
          hideOverlap: true,
          formatter: (v: number) => `${Math.round(v * 100)} %`,
        },
      }),
    },
    yAxis: {
      type: 'category',
      data: rows.map((e) => e.parameter),
      axisLabel: { color: theme.text },
      axisLine: { lineStyle: { color: theme.line } },
      axisTick: { show: false },
    },
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `${Math.round(v * 100)} %`,
    },
    series: [
      {
        type: 'bar',
        name: 'median',
        color: pickColour(0, theme),
        barMaxWidth: 18,
        data: rows.map((e) => e.importance.median),
      },
      createWhiskers(
        rows.map((e, i) => [i, e.importance]),
        'horizontal',
        theme,
      ),
    ],
  }
}

/**
 * Capacity at each value of one parameter relative to the mean over the space, with its 90 %
 * interval; log axis, 1 = no effect.
 */
export function createEffectOption({ parameter, values }: Effect, theme: Theme): ChartOption {
  const scale = createLogAxis(
    values.flatMap((v) => [v.low, v.high]),
    [0.8, 1.25],
  )
  return {
    ...createBase(theme),
    grid: { left: 48, right: 12, top: 12, bottom: 44 },
    xAxis: {
      type: 'category',
      data: values.map((v) => String(v.value)),
      ...createAxis(parameter, theme, { axisLabel: { color: theme.muted, fontSize: 11 } }),
    },
    yAxis: {
      ...scale,
      ...createAxis('', theme, {
        axisLabel: { color: theme.muted, formatter: (v: number) => `${formatCompact(v)}x` },
      }),
    },
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `${Number(v).toFixed(2)}x the mean capacity`,
    },
    series: [
      {
        type: 'line',
        name: parameter,
        color: pickColour(0, theme),
        symbolSize: 8,
        // No line between categories.
        lineStyle: { width: values.some((v) => typeof v.value === 'string') ? 0 : 1.5 },
        data: values.map((v) => v.median),
        markLine: {
          silent: true,
          symbol: 'none',
          label: { show: false },
          lineStyle: { color: theme.line, type: 'solid' },
          data: [{ yAxis: 1 }],
        },
      },
      createWhiskers(
        values.map((v, i) => [i, v]),
        'vertical',
        theme,
      ),
    ],
  }
}

/** Creates error bars from `low` to `high`. */
export function createWhiskers(
  rows: readonly (readonly [number, Range])[],
  direction: 'horizontal' | 'vertical',
  theme: Theme,
): object {
  const isHorizontal = direction === 'horizontal'
  return {
    type: 'custom',
    silent: true,
    tooltip: { show: false },
    data: rows.map(([i, r]) => (isHorizontal ? [r.low, i, r.high] : [i, r.low, r.high])),
    encode: isHorizontal ? { x: [0, 2], y: 1 } : { x: 0, y: [1, 2] },
    renderItem: (_: unknown, api: Api) => {
      const [x1, y1] = api.coord([api.value(0), api.value(1)]) as [number, number]
      const [x2, y2] = api.coord(
        isHorizontal ? [api.value(2), api.value(1)] : [api.value(0), api.value(2)],
      ) as [number, number]
      const line = (ax: number, ay: number, bx: number, by: number) => ({
        type: 'line',
        shape: { x1: ax, y1: ay, x2: bx, y2: by },
        style: { stroke: theme.text, lineWidth: 1.2 },
      })
      const [dx, dy] = isHorizontal ? [0, 4] : [4, 0]
      return {
        type: 'group',
        children: [
          line(x1, y1, x2, y2),
          line(x1 - dx, y1 - dy, x1 + dx, y1 + dy),
          line(x2 - dx, y2 - dy, x2 + dx, y2 + dy),
        ],
      }
    },
    z: 5,
  }
}

/** Cost of each trial and the best so far, against the number of the trial or the money spent. */
export function createHistoryOption(
  points: readonly HistoryPoint[],
  against: 'trials' | 'money',
  objective: Objective,
  theme: Theme,
): ChartOption {
  const x = (p: HistoryPoint) => (against === 'trials' ? p.trial : p.spent)
  const pointsWithCost = points.filter((p) => p.cost !== undefined)
  const convertCost = (cost: number) => toDisplayedCost(objective, cost)
  const log = pointsWithCost.length > 0 && pointsWithCost.every((p) => convertCost(p.cost!) > 0)
  const scale = log
    ? createLogAxis(pointsWithCost.map((p) => convertCost(p.cost!)))
    : { type: 'value' }
  return {
    ...createBase(theme),
    grid: { left: 60, right: 20, top: 34, bottom: 48 },
    legend: createLegend(theme, { left: 8, right: 'auto' }),
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: {
      type: 'value',
      min: against === 'trials' ? 1 : 0,
      ...(against === 'trials' ? { minInterval: 1 } : {}),
      ...createAxis(against === 'trials' ? 'trial' : 'spent on trials, $', theme),
    },
    yAxis: {
      ...scale,
      ...createYAxis(`${getObjectiveUnit(objective)}${log ? ' (log)' : ''}`, theme),
    },
    series: [
      {
        type: 'scatter',
        name: 'trial',
        color: pickColour(6, theme),
        symbolSize: pointsWithCost.length > 2_000 ? 3 : 8,
        large: pointsWithCost.length > 2_000,
        largeThreshold: 1,
        data: pointsWithCost.map((p) => [x(p), convertCost(p.cost!), p.trial]),
      },
      {
        type: 'line',
        name: 'best so far',
        color: pickColour(1, theme),
        step: 'end',
        symbol: 'none',
        silent: true,
        lineStyle: { width: 2 },
        sampling: 'lttb',
        data: points.filter((p) => p.best !== undefined).map((p) => [x(p), convertCost(p.best!)]),
      },
    ],
  }
}

/**
 * Predicted capacity with its 90 % interval against the measured one; the diagonal is a perfect
 * prediction.
 */
export function createPredictionOption(
  pairs: readonly {
    readonly trial: number
    readonly predicted: number
    readonly low: number
    readonly high: number
    readonly measured: number
  }[],
  theme: Theme,
): ChartOption {
  const scale = createLogAxis(pairs.flatMap((p) => [p.predicted, p.measured]))
  return {
    ...createBase(theme),
    grid: { left: 60, right: 20, top: 20, bottom: 48 },
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: { ...scale, ...createAxis('predicted capacity, req/s (log)', theme) },
    yAxis: { ...scale, ...createYAxis('measured, req/s (log)', theme) },
    series: [
      {
        type: 'line',
        silent: true,
        symbol: 'none',
        lineStyle: { color: theme.line, width: 1.5 },
        data: [
          [scale.min, scale.min],
          [scale.max, scale.max],
        ],
      },
      {
        type: 'custom',
        silent: true,
        data: pairs.map((p) => [
          Math.max(p.low, scale.min),
          p.measured,
          Math.min(p.high, scale.max),
        ]),
        renderItem: (_: unknown, api: Api) => {
          const [x1, y] = api.coord([api.value(0), api.value(1)]) as [number, number]
          const [x2] = api.coord([api.value(2), api.value(1)]) as [number, number]
          return {
            type: 'line',
            shape: { x1, y1: y, x2, y2: y },
            style: { stroke: theme.muted, lineWidth: 1 },
          }
        },
      },
      {
        type: 'scatter',
        name: 'trial',
        color: pickColour(0, theme),
        symbol: pickSymbol(0),
        symbolSize: 9,
        data: pairs.map((p) => [p.predicted, p.measured, p.trial]),
      },
    ],
  }
}

/** Confirmations, measured, infeasible and failed trials each have a colour. */
const pickStateColour = (trial: FinishedTrial, theme: Theme): string =>
  trial.purpose === 'confirmation'
    ? pickColour(2, theme)
    : trial.state === 'complete'
      ? pickColour(0, theme)
      : trial.state === 'infeasible'
        ? pickColour(5, theme)
        : theme.warn

/** Timeline of trials, with one lane per concurrent trial. */
export function createTimelineOption(trials: readonly FinishedTrial[], theme: Theme): ChartOption {
  const starts = trials.map((t) => Date.parse(t.startedAt))
  const first = Math.min(...starts)
  const lanes: number[] = []
  const bars = trials
    .map((trial, i) => ({
      trial,
      from: (starts[i]! - first) / 1000,
      to: (starts[i]! - first) / 1000 + trial.seconds,
    }))
    .sort((a, b) => a.from - b.from)
    .map(({ trial, from, to }) => {
      let lane = lanes.findIndex((end) => end <= from + 1e-3)
      if (lane === -1) lane = lanes.length
      lanes[lane] = to
      return {
        value: [from, lane, to, trial.number],
        itemStyle: { color: pickStateColour(trial, theme) },
      }
    })
  const last = Math.max(...lanes, 1)
  const [unit, seconds] =
    last > 7_200 ? ['hours', 3600] : last > 180 ? ['minutes', 60] : ['seconds', 1]
  return {
    ...createBase(theme),
    grid: { left: 20, right: 20, top: 8, bottom: 44 },
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: {
      type: 'value',
      min: 0,
      max: last,
      ...createAxis(`${unit} since the first trial started`, theme, {
        axisLabel: {
          color: theme.muted,
          formatter: (v: number) => formatCompact(v / (seconds as number)),
        },
      }),
    },
    yAxis: {
      type: 'value',
      min: -0.5,
      max: Math.max(0.5, lanes.length - 0.5),
      inverse: true,
      show: false,
    },
    series: [
      {
        type: 'custom',
        data: bars,
        encode: { x: [0, 2], y: 1 },
        renderItem: (_: unknown, api: Api & { visual(name: string): string }) => {
          const [x1, y] = api.coord([api.value(0), api.value(1)]) as [number, number]
          const [x2] = api.coord([api.value(2), api.value(1)]) as [number, number]
          return {
            type: 'rect',
            shape: { x: x1, y: y - 11, width: Math.max(2, x2 - x1 - 1), height: 22, r: 2 },
            style: { fill: api.visual('color') },
          }
        },
      },
    ],
  }
}
