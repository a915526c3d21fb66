/**
 * Around the best: every configuration across its parameters, the capacity along each of them, and
 * over any two.
 */

import type { Configuration } from '../../../../search/types.ts'
import { rate } from '../../../format.ts'
import type { Around } from '../../around.ts'
import { mostLines, parallelOption, sliceOption, surfaceOption } from '../../charts/around-chart.ts'
import { varyingOf } from '../../importance.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h } from '../dom.ts'
import type { Shown } from '../section.ts'
import { hoverCard } from './pareto.ts'

/** What slices and surfaces go through: what is recommended, else what serves most. */
export const centreOf = ({ recommendation: { best }, candidates }: Shown): Configuration =>
  (best ?? [...candidates].sort((a, b) => b.capacityRps - a.capacityRps)[0])?.configuration ?? {}

/** @param asked called when another pair is chosen */
export function aroundTheBest(app: App, asked: () => void) {
  const parallel = parallelChart(app)
  const slices = new Map<string, Chart>()
  const along = h('div', { class: 'effects' })
  const surface = new Chart('surface', 'Capacity over two parameters')
  let pair: readonly string[] = []
  const choose = () => {
    pair = choices.map(({ value }) => value)
    asked()
  }
  const choices: readonly HTMLSelectElement[] = ['across', 'up'].map((what) =>
    h('select', { attributes: { 'aria-label': `Parameter ${what}` }, on: { change: choose } }),
  )
  const over = h(
    'div',
    {},
    h('header', {}, h('h3', {}, 'Over two parameters'), h('span', { class: 'switch' }, ...choices)),
    surface.element,
    h('p', { class: 'note' }, surfaceNote),
  )
  const model = h(
    'div',
    {},
    h('h3', {}, 'One parameter at a time, all others as recommended'),
    along,
    h('p', { class: 'note' }, sliceNote),
    over,
  )
  return {
    element: h('div', {}, parallel.element, model),
    /** Parameters that the reader chose; none until then. */
    pair: (): readonly string[] => pair,
    show(shown: Shown, around: Around | undefined): void {
      parallel.show(shown)
      model.hidden = around === undefined
      over.hidden = around?.surface === undefined
      if (around === undefined) return
      showSlices(along, slices, around, shown)
      if (around.surface === undefined) return
      const { surface: told } = around
      // What was chosen while the worker computed stays chosen; its own answer follows.
      offer(choices, shown, pair.length > 0 ? pair : [told.across.parameter, told.up.parameter])
      surface.set(() => surfaceOption(told, shown.theme))
      const most = told.cells
        .flatMap((row, v) =>
          row.map((cell, u) => ({
            ...cell,
            at: `${told.across.values[u]} and ${told.up.values[v]}`,
          })),
        )
        .sort((a, b) => b.median - a.median)[0]!
      surface.describe(
        `Capacity over ${told.across.parameter} and ${told.up.parameter}: highest at ${most.at}, ${rate(most.median)}`,
      )
    },
  }
}

const sliceNote =
  'Capacity predicted by the same Gaussian process when one parameter changes, with 90 % intervals. Diamonds: measured. In brackets: the recommended value.'
const surfaceNote =
  'All other parameters are as recommended. Darker cells have more capacity, smaller cells are less certain, and framed cells were measured.'

function showSlices(
  element: HTMLElement,
  charts: Map<string, Chart>,
  { slices }: Around,
  { theme }: Shown,
): void {
  const shown = slices.map((slice) => {
    const chart =
      charts.get(slice.parameter) ?? new Chart(`slice-${slice.parameter}`, slice.parameter, 'small')
    charts.set(slice.parameter, chart)
    chart.set(() => sliceOption(slice, theme))
    chart.describe(
      `Capacity along ${slice.parameter}: ${slice.values.map(({ value, median }) => `${value}: ${rate(median)}`).join(', ')}`,
    )
    return chart.element
  })
  if (
    element.childElementCount !== shown.length ||
    shown.some((one, i) => element.children[i] !== one)
  )
    fill(element, ...shown)
}

/** Parameters that vary, with the two that are drawn chosen. */
function offer(
  choices: readonly HTMLSelectElement[],
  { experiment }: Shown,
  drawn: readonly string[],
): void {
  const names = varyingOf(experiment.parameters).map(({ parameter }) => parameter.name)
  for (const [i, select] of choices.entries()) {
    if (select.options.length !== names.length)
      fill(select, ...names.map((name) => h('option', { attributes: { value: name } }, name)))
    select.value = drawn[i]!
  }
}

function parallelChart(app: App) {
  const trialIn = (value: readonly number[]) => value.at(-1)
  const chart = new Chart(
    'parallel',
    'Every configuration across its parameters',
    'middle',
    ({ value }) => app.shown && hoverCard(app.shown, { value: [0, 0, trialIn(value) ?? 0] }),
  )
  chart.onClick(({ value }) => {
    const trial = trialIn(value)
    if (trial !== undefined) app.actions.openTrial(trial)
  })
  const note = h('p', { class: 'note' })
  return {
    element: h('div', {}, h('h3', {}, 'Every configuration'), chart.element, note),
    show({ experiment, candidates, recommendation: { best }, whatIf, theme }: Shown): void {
      const served = candidates.filter(({ capacityRps }) => capacityRps > 0)
      chart.set(() =>
        parallelOption(
          {
            parameters: experiment.parameters,
            candidates: served,
            best,
            objective: whatIf.objective,
          },
          theme,
        ),
      )
      chart.describe(
        `${served.length} configurations that served, one line each over parameters, capacity, price and cost${best ? `; recommended: ${best.label}` : ''}`,
      )
      const left = served.length > mostLines ? ` ${mostLines} of ${served.length} are shown.` : ''
      note.textContent = `Each line is a configuration that served: solid if it meets the SLO, dashed if not, thick if recommended.${left} Drag along an axis to filter the lines; click next to the axis to clear the filter.`
    },
  }
}
