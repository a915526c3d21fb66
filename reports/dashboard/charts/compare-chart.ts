/**
 * Chart of cost against capacity for several experiments, each with its Pareto front and its
 * recommendation. Pure functions.
 */
import { money as dollars, rate } from '../../format.ts'
import { conclusions, type Recommendation } from '../../recommendation/types.ts'
import {
  type CostMeasure,
  createCostFrame,
  createCostFunction,
  createFrontSeries,
  createScales,
  findParetoFront,
  formatCostUnit,
  listServingCandidates,
  styleLabel,
  styleMark,
} from './decision-chart.ts'
import { type ChartOption, createBase, pickColour, pickSymbol, type Theme } from './theme.ts'

/** An experiment's recommendation for the SLO, demand and prices chosen on the page. */
interface ComparedExperiment {
  readonly id: string
  readonly recommendation: Recommendation
}

/**
 * Colour and shape follow the order of `compared`. Value of a point: capacity, $, index of its
 * experiment, trial number.
 */
export function createComparisonOption(
  compared: readonly ComparedExperiment[],
  costMeasure: CostMeasure,
  theme: Theme,
): ChartOption {
  const experiments = compared.map((one, i) => ({
    ...one,
    i,
    computeCost: createCostFunction(costMeasure, one.recommendation),
    servingCandidates: listServingCandidates(one.recommendation),
  }))
  const [first] = experiments
  if (!first) return createBase(theme)
  const scale = createScales(
    experiments.flatMap(({ servingCandidates }) => servingCandidates),
    first.computeCost,
  )
  return {
    ...createCostFrame(
      scale,
      costMeasure,
      experiments.map(({ id }) => id),
      theme,
    ),
    series: [
      ...experiments.flatMap(({ id, i, servingCandidates, computeCost }) => [
        createFrontSeries(
          findParetoFront(servingCandidates, computeCost),
          computeCost,
          pickColour(i, theme),
          `cheapest of ${id}`,
        ),
        {
          type: 'scatter',
          id: `compared ${id}`,
          name: id,
          color: pickColour(i, theme),
          symbol: pickSymbol(i),
          symbolSize: 9,
          data: servingCandidates.map((c) => ({
            value: [c.capacityRps, computeCost(c), i, c.trial],
            itemStyle: styleMark(c.status, pickColour(i, theme), theme),
          })),
          z: 4,
        },
      ]),
      // One series, so that labels do not overlap.
      {
        type: 'scatter',
        id: 'recommended of each',
        silent: true,
        symbol: 'circle',
        symbolSize: 21,
        labelLayout: { hideOverlap: true, moveOverlap: 'shiftY' },
        data: experiments.flatMap(({ id, i, computeCost, recommendation: { best } }) =>
          best && best.capacityRps > 0
            ? [
                {
                  value: [best.capacityRps, computeCost(best), i, best.trial],
                  itemStyle: {
                    color: 'transparent',
                    borderColor: pickColour(i, theme),
                    borderWidth: 2,
                  },
                  label: { ...styleLabel(id, 'bottom', theme), color: pickColour(i, theme) },
                },
              ]
            : [],
        ),
        z: 6,
      },
    ],
  }
}

/** Text alternative of the chart. */
export const describeComparison = (
  compared: readonly ComparedExperiment[],
  costMeasure: CostMeasure,
): string =>
  `Cost and capacity of ${compared.length} experiments. ${compared
    .map(({ id, recommendation: r }) =>
      r.best
        ? `${id}: ${r.best.label}, ${rate(r.best.capacityRps)}, ${dollars(createCostFunction(costMeasure, r)(r.best))} ${formatCostUnit(costMeasure)}`
        : `${id}: ${conclusions[r.conclusion]}`,
    )
    .join('; ')}`
