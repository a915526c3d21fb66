/**
 * Charts of the neighbourhood of the best configuration: slices, a surface, and parallel
 * coordinates of all trials. Pure.
 */

import { getObjectiveUnit, type Objective, toDisplayedCost } from '../../../search/objective.ts'
import { listParameterValues } from '../../../search/space/space.ts'
import type { Parameter } from '../../../search/types.ts'
import type { Candidate } from '../../recommendation/types.ts'
import type { Slice, Surface } from '../data/neighbourhood.ts'
import { type Api, createWhiskers } from './analysis-charts.ts'
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

/** Predicted capacity with its 90 % interval, and the trials measured there; log axis. */
export function createSliceOption(
  { parameter, values, centreValue: at }: Slice,
  theme: Theme,
): ChartOption {
  const tried = values.flatMap((value, i) =>
    value.tried.map(({ capacityRps, trial }) => [i, capacityRps, trial]),
  )
  const scale = createLogAxis([
    ...values.flatMap(({ low, high }) => [low, high]),
    ...tried.map(([, rps]) => rps!),
  ])
  return {
    ...createBase(theme),
    grid: { left: 52, right: 12, top: 12, bottom: 44 },
    xAxis: {
      type: 'category',
      data: values.map(({ value }) => String(value)),
      ...createAxis(parameter, theme, {
        axisLabel: {
          color: theme.muted,
          fontSize: 11,
          formatter: (text: string) => (text === String(at) ? `[${text}]` : text),
        },
      }),
    },
    yAxis: {
      ...scale,
      ...createAxis('', theme, { axisLabel: { color: theme.muted, formatter: formatCompact } }),
    },
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `${formatCompact(Number(v))} req/s`,
    },
    series: [
      {
        type: 'line',
        name: 'believed',
        color: pickColour(0, theme),
        symbolSize: 6,
        lineStyle: { width: values.some(({ value }) => typeof value === 'string') ? 0 : 1.5 },
        data: values.map(({ median }) => median),
      },
      createWhiskers(
        values.map((value, i) => [i, value]),
        'vertical',
        theme,
      ),
      {
        type: 'scatter',
        name: 'measured',
        color: theme.text,
        symbol: 'emptyDiamond',
        symbolSize: 10,
        data: tried,
        z: 6,
      },
    ],
  }
}

/** Longer value names are truncated. */
const maxNameLength = 12
const shortenName = (value: number | string): string => {
  const text = typeof value === 'number' ? formatCompact(value) : value
  return text.length > maxNameLength ? `${text.slice(0, maxNameLength - 1)}…` : text
}

/**
 * A cell per pair of values: its colour shows the capacity, its size the certainty, a frame a
 * measurement.
 */
export function createSurfaceOption({ across, up, cells }: Surface, theme: Theme): ChartOption {
  const all = cells.flat()
  const [low, high] = [
    Math.min(...all.map(({ median }) => median)),
    Math.max(...all.map(({ median }) => median)),
  ]
  const share = (rps: number) => (high > low ? Math.log(rps / low) / Math.log(high / low) : 0.5)
  const data = cells.flatMap((row, v) =>
    row.map((cell, u) => [
      u,
      v,
      cell.median,
      computeCertainty(cell),
      cell.tried.length,
      cell.low,
      cell.high,
    ]),
  )
  const category = (values: readonly (number | string)[]) => ({
    type: 'category',
    data: values.map(shortenName),
    splitArea: { show: false },
  })
  return {
    ...createBase(theme),
    grid: { left: 84, right: 16, top: 12, bottom: 48 },
    xAxis: {
      ...category(across.values),
      ...createAxis(across.parameter, theme, {
        axisLabel: { color: theme.muted, fontSize: 11, interval: 0 },
      }),
    },
    yAxis: {
      ...category(up.values),
      ...createYAxis(up.parameter, theme, {
        nameGap: 66,
        axisLabel: { color: theme.muted, fontSize: 11, interval: 0 },
      }),
    },
    tooltip: {
      trigger: 'item',
      confine: true,
      renderMode: 'richText',
      formatter: ({ value: [u, v, median, , tried, from, to] }: { value: number[] }) =>
        `${across.parameter} ${across.values[u!]}, ${up.parameter} ${up.values[v!]}\n${formatCompact(median!)} req/s [${formatCompact(from!)} to ${formatCompact(to!)}]${tried! > 0 ? ', measured' : ''}`,
    },
    series: [
      {
        type: 'custom',
        name: 'capacity',
        data,
        encode: { x: 0, y: 1 },
        renderItem: (_: unknown, api: Api & { size(of: number[]): number[] }) =>
          renderCell(api, share(api.value(2)), theme),
      },
    ],
  }
}

/** 1: exact; 0: an uncertainty of a factor of three or more. */
const computeCertainty = ({ low, high }: { readonly low: number; readonly high: number }): number =>
  Math.max(0, 1 - Math.log(high / low) / Math.log(9))

function renderCell(
  api: Api & { size(of: number[]): number[] },
  share: number,
  theme: Theme,
): object {
  const [x, y] = api.coord([api.value(0), api.value(1)]) as [number, number]
  const [wide, high] = api.size([1, 1]) as [number, number]
  const size = 0.35 + 0.6 * api.value(3)
  const [width, height] = [size * wide, size * high]
  const shape = { x: x - width / 2, y: y - height / 2, width, height, r: 2 }
  const measured = api.value(4) > 0
  return {
    type: 'group',
    children: [
      {
        type: 'rect',
        shape,
        style: {
          fill: theme.accent,
          opacity: 0.08 + 0.5 * share,
          ...(measured && { stroke: theme.text, lineWidth: 2 }),
        },
      },
      ...(measured
        ? [{ type: 'rect', shape, style: { fill: 'none', stroke: theme.text, lineWidth: 2 } }]
        : []),
      {
        type: 'text',
        style: {
          text: formatCompact(Number(api.value(2).toPrecision(3))),
          x,
          y,
          align: 'center',
          verticalAlign: 'middle',
          fill: theme.text,
          fontSize: 11,
        },
      },
    ],
  }
}

interface ParallelInput {
  readonly parameters: readonly Parameter[]
  readonly candidates: readonly Candidate[]
  readonly best: Candidate | undefined
  readonly objective: Objective
}

/** More lines are unreadable; the page states how many are left out. */
export const maxLines = 600
/** Parameters with more values get a numeric axis. */
const maxNames = 16

/**
 * Parallel coordinates: every configuration as a line over its parameters, capacity and cost.
 * Dragging along an axis filters the lines.
 */
export function createParallelOption(
  { parameters, candidates, best, objective }: ParallelInput,
  theme: Theme,
): ChartOption {
  const varying = parameters.filter(
    (p) => new Set(candidates.map(({ configuration }) => configuration[p.name])).size > 1,
  )
  const drawnCandidates = sampleEvenly(candidates, maxLines)
  const style = {
    nameTextStyle: { color: theme.text, fontSize: 11 },
    axisLine: { lineStyle: { color: theme.muted } },
    axisLabel: { color: theme.text, fontSize: 11 },
  }
  const figures = ['req/s', '$/h', getObjectiveUnit(objective)]
  const listFigures = (c: Candidate) => [
    c.capacityRps,
    c.pricePerHour,
    c.feasible ? toDisplayedCost(objective, c.cost) : Number.NaN,
  ]
  const scales = varying.map((parameter) => createScale(parameter, candidates))
  const row = (c: Candidate) => [
    ...varying.map(({ name }, i) => toAxisValue(c.configuration[name], scales[i]!)),
    ...listFigures(c),
    c.trial,
  ]
  const kinds = [
    {
      name: 'meets the SLO',
      of: (c: Candidate) => c.feasible && c !== best,
      line: { color: pickColour(0, theme), width: 1.2, opacity: 0.45 },
    },
    {
      name: 'violates the SLO',
      of: (c: Candidate) => !c.feasible,
      line: { color: theme.muted, width: 1, opacity: 0.5, type: 'dashed' },
    },
    {
      name: 'recommended',
      of: (c: Candidate) => c === best,
      line: { color: theme.good, width: 4, opacity: 1 },
    },
  ]
  return {
    ...createBase(theme),
    legend: createLegend(theme, { data: kinds.map(({ name }) => name) }),
    parallel: { left: 48, right: 64, top: 64, bottom: 24 },
    parallelAxis: [
      ...varying.map((parameter, dim) => ({
        dim,
        name: parameter.name,
        ...scales[dim]!,
        ...style,
      })),
      ...figures.map((name, i) => ({
        dim: varying.length + i,
        name,
        ...createLogAxis(candidates.map((c) => listFigures(c)[i]!)),
        ...style,
        axisLabel: { ...style.axisLabel, formatter: formatCompact },
      })),
    ],
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    series: kinds.map(({ name, of, line }) => ({
      type: 'parallel',
      name,
      symbol: pickSymbol(0),
      progressive: 0,
      lineStyle: line,
      color: line.color,
      emphasis: { lineStyle: { width: 3, opacity: 1 } },
      inactiveOpacity: 0.04,
      activeOpacity: 0.9,
      data: drawnCandidates.filter(of).map(row),
    })),
  }
}

/** A category axis would read a number as an index, so it gets text. */
const toAxisValue = (value: number | string | undefined, { type }: Scale): number | string =>
  value === undefined ? '-' : type === 'category' ? String(value) : value

interface Scale {
  readonly type: string
  readonly data?: readonly string[]
}

/** Creates a category axis for few values, a numeric one for many. */
function createScale(parameter: Parameter, candidates: readonly Candidate[]): Scale {
  const tried = [
    ...new Set(candidates.flatMap(({ configuration }) => configuration[parameter.name] ?? [])),
  ]
  if (tried.every((value) => typeof value === 'number') && tried.length > maxNames)
    return tried.every((value) => value > 0) ? createLogAxis(tried) : unzeroedAxis
  const order = listParameterValues(parameter) ?? []
  const rank = (value: number | string) => order.indexOf(value as never)
  const sorted = tried.every((value) => typeof value === 'number')
    ? [...tried].sort((a, b) => a - b)
    : [...tried].sort((a, b) => rank(a) - rank(b))
  return { type: 'category', data: sorted.map(String) }
}

/** An axis from the smallest to the largest value, which need not include zero. */
const unzeroedAxis = { type: 'value', scale: true }

function sampleEvenly<T>(all: readonly T[], maxCount: number): readonly T[] {
  if (all.length <= maxCount) return all
  return Array.from({ length: maxCount }, (_, i) => all[Math.floor((i * all.length) / maxCount)]!)
}
