/**
 * Several experiments on the axes of money and capacity, each with its own cheapest line and its
 * recommended one. Pure.
 */
import { money as dollars, rate } from '../../format.ts'
import { conclusions, type Recommendation } from '../../recommendation/types.ts'
import {
  type Bill,
  createDollarFunction,
  createFrontSeries,
  createMoneyFrame,
  createScales,
  findCheapestByCapacity,
  formatBill,
  listServed,
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
 * Colour and shape follow the order given. A point's value: capacity, $, its place among the
 * experiments, its trial.
 */
export function compareOption(
  compared: readonly ComparedExperiment[],
  bill: Bill,
  theme: Theme,
): ChartOption {
  const experiments = compared.map((one, i) => ({
    ...one,
    i,
    dollarsOf: createDollarFunction(bill, one.recommendation),
    served: listServed(one.recommendation),
  }))
  const [first] = experiments
  if (!first) return createBase(theme)
  const scale = createScales(
    experiments.flatMap(({ served }) => served),
    first.dollarsOf,
  )
  return {
    ...createMoneyFrame(
      scale,
      bill,
      experiments.map(({ id }) => id),
      theme,
    ),
    series: [
      ...experiments.flatMap(({ id, i, served, dollarsOf }) => [
        createFrontSeries(
          findCheapestByCapacity(served, dollarsOf),
          dollarsOf,
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
          data: served.map((c) => ({
            value: [c.capacityRps, dollarsOf(c), i, c.trial],
            itemStyle: styleMark(c.status, pickColour(i, theme), theme),
          })),
          z: 4,
        },
      ]),
      // One series, so that names that would cover each other give way.
      {
        type: 'scatter',
        id: 'recommended of each',
        silent: true,
        symbol: 'circle',
        symbolSize: 21,
        labelLayout: { hideOverlap: true, moveOverlap: 'shiftY' },
        data: experiments.flatMap(({ id, i, dollarsOf, recommendation: { best } }) =>
          best && best.capacityRps > 0
            ? [
                {
                  value: [best.capacityRps, dollarsOf(best), i, best.trial],
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

/** Describes the chart in words, for those who do not see it. */
export const describeComparison = (compared: readonly ComparedExperiment[], bill: Bill): string =>
  `Cost and capacity of ${compared.length} experiments. ${compared
    .map(({ id, recommendation: r }) =>
      r.best
        ? `${id}: ${r.best.label}, ${rate(r.best.capacityRps)}, ${dollars(createDollarFunction(bill, r)(r.best))} ${formatBill(bill)}`
        : `${id}: ${conclusions[r.conclusion]}`,
    )
    .join('; ')}`
