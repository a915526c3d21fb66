/** Chart of the monthly price against demand, a staircase for each configuration. Pure. */

import type { Candidate } from '../../recommendation/types.ts'
import { planFleet } from '../data/analysis.ts'
import {
  type ChartOption,
  createAxis,
  createBase,
  createLegend,
  createYAxis,
  pickColour,
  type Theme,
} from './theme.ts'

/** Number of points of the curve. */
const pointCount = 240

/** Price per month for every demand up to `upToRps`; the planned demand is marked. */
export function createMonthlyPriceOption(
  candidates: readonly Candidate[],
  demandRps: number,
  headroom: number,
  upToRps: number,
  theme: Theme,
): ChartOption {
  const rates = Array.from({ length: pointCount }, (_, i) => ((i + 1) / pointCount) * upToRps)
  return {
    ...createBase(theme),
    grid: { left: 64, right: 20, top: 34, bottom: 48 },
    legend: createLegend(theme, { left: 8, right: 'auto' }),
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `$${Math.round(v).toLocaleString('en-US')}`,
    },
    xAxis: {
      type: 'value',
      min: 0,
      max: upToRps,
      ...createAxis('demand, requests per second', theme),
    },
    yAxis: { type: 'value', min: 0, ...createYAxis('$ per month (30 days)', theme) },
    series: candidates.map((c, i) => ({
      type: 'line',
      name: `trial ${c.trial}`,
      color: pickColour(i, theme),
      step: 'end',
      symbol: 'none',
      lineStyle: {
        width: i === 0 ? 2.5 : 1.5,
        type: (['solid', 'dashed', 'dotted'] as const)[i % 3],
      },
      data: rates.map((rps) => [rps, planFleet(c, rps, headroom).pricePerMonth]),
      ...(i === 0
        ? {
            markLine: {
              silent: true,
              symbol: 'none',
              lineStyle: { color: theme.muted, type: 'solid', width: 1 },
              label: { formatter: 'demand', color: theme.muted, position: 'insideEndTop' },
              data: [{ xAxis: demandRps }],
            },
          }
        : {}),
    })),
  }
}
