/**
 * Trials that were picked in the table, side by side: their load curves in one chart, and where
 * their configurations and figures differ.
 */
import { latency, money, significant, sloName } from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import type { RankedCandidate } from '../../../recommendation/ranked-candidate.ts'
import { atCapacityValue, capacityText, estimateText } from '../../../recommendation/words.ts'
import { curvesOption } from '../../charts/curves-chart.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { type Child, fill, h, table } from '../dom.ts'
import type { Section, Shown } from '../section.ts'
import { hoverCard } from './pareto.ts'

export function compareTrialsSection(app: App): Section {
  const chart = new Chart(
    'trials-compared',
    'Load curves of the trials compared',
    'middle',
    (item) => app.shown && hoverCard(app.shown, item),
  )
  chart.onClick(({ value }) => value[2] !== undefined && app.actions.openTrial(value[2]))
  const body = h('div', {})
  const clear = () => {
    app.sideBySide.clear()
    app.showAgain()
  }
  const element = h(
    'section',
    { attributes: { id: 'compare-trials', 'aria-label': 'Trials side by side' } },
    h(
      'header',
      {},
      h('h2', {}, 'Trials side by side'),
      h('button', { attributes: { type: 'button' }, on: { click: clear } }, 'Clear selection'),
    ),
    chart.element,
    body,
  )
  return {
    element,
    update(shown) {
      const { trials, byTrial, ranker, whatIf, theme } = shown
      const picked = [...app.sideBySide].flatMap((number) => byTrial.get(number) ?? [])
      element.hidden = app.sideBySide.size === 0
      if (element.hidden) return
      const judged = ranker.judged(trials, picked, whatIf)
      const drawn = judged.filter(({ candidate }) => candidate.capacityRps > 0)
      chart.element.hidden = drawn.length === 0
      chart.set(() => curvesOption(drawn, whatIf.slo, theme))
      chart.describe(
        `Load curves of ${drawn.map(({ candidate }) => `trial ${candidate.trial}: ${capacityText(candidate)}`).join('; ') || 'nothing'}`,
      )
      fill(
        body,
        ...(picked.length < app.sideBySide.size
          ? [h('p', { class: 'note' }, leftOut(app, shown))]
          : []),
        tableOf(judged, shown),
      )
    },
  }
}

const leftOut = ({ sideBySide }: App, { byTrial }: Shown): string =>
  `Left out, because other trials represent their configurations: ${[...sideBySide].filter((number) => !byTrial.has(number)).join(', ')}.`

interface Row {
  readonly name: string
  readonly of: (judged: RankedCandidate) => string
}

/** A column for each trial; what is the same in all of them is pale. */
function tableOf(
  judged: readonly RankedCandidate[],
  { experiment, whatIf, annotations }: Shown,
): HTMLElement {
  const knobs: Row[] = experiment.parameters.map(({ name }) => ({
    name,
    of: ({ candidate }) => String(candidate.configuration[name] ?? '-'),
  }))
  const figure = (name: string, of: Row['of']): Row => ({ name, of })
  const served = (of: (judged: RankedCandidate) => string) => (one: RankedCandidate) =>
    one.candidate.capacityRps > 0 ? of(one) : '-'
  const figures: Row[] = [
    figure(
      'status',
      ({ candidate: { reason, status } }) =>
        reason ?? describeStatus(status, experiment.provenance).name,
    ),
    figure(
      'safe capacity',
      served(({ candidate }) => capacityText(candidate)),
    ),
    figure(
      'estimate [90 %]',
      served(({ candidate }) => estimateText(candidate)),
    ),
    figure(
      `${sloName(whatIf.slo)} there`,
      served(({ candidate }) => atCapacityValue(whatIf.slo, candidate)),
    ),
    figure('unloaded latency', ({ candidate }) =>
      candidate.unloadedMs === undefined ? '-' : latency(candidate.unloadedMs),
    ),
    figure('$ / h', ({ candidate }) => money(candidate.pricePerHour)),
    figure(
      '$ / M requests',
      served(({ candidate }) => money(candidate.pricePerMillionRequests)),
    ),
    figure('ready after', ({ candidate: { usage } }) =>
      usage?.launchSeconds === undefined ? '-' : `${significant(usage.launchSeconds)} s`,
    ),
    figure('note and tags', ({ candidate: { trial } }) => {
      const { tags = [], note } = annotations.get(trial) ?? {}
      return [...tags, ...(note === undefined ? [] : [note])].join(', ')
    }),
  ]
  const lines = [...knobs, ...figures].flatMap(({ name, of }): Child[][] => {
    const texts = judged.map(of)
    if (texts.every((text) => text === '' || text === '-')) return []
    const same = judged.length > 1 && texts.every((text) => text === texts[0])
    return [
      [
        h('span', { class: same ? 'same' : 'differs' }, name),
        ...texts.map((text) => h('span', { class: same ? 'same' : 'differs' }, text)),
      ],
    ]
  })
  return table(
    ['', ...judged.map(({ candidate }) => `trial ${candidate.trial}`)],
    lines,
    [],
    'Trials side by side',
  )
}
