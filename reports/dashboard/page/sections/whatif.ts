/** The question: SLO, objective, demand and prices, all editable; every change re-ranks at once. */

import {
  limitTitle,
  replaceLimit,
  resolveLimits,
  type Slo,
} from '../../../../profiler/model/slo.ts'
import {
  createObjective,
  defaultObjectiveKind,
  getMetric,
  getObjectiveWords,
  getPriceBound,
  getRequiredInput,
  type ObjectiveKind,
  objectiveKinds,
} from '../../../../search/objective.ts'
import type { PriceBook } from '../../../../trials/prices/book.ts'
import { findLastMetrics } from '../../../recommendation/read-metrics.ts'
import { withPrice } from '../../address.ts'
import type { App } from '../app.ts'
import { field, fill, h } from '../dom.ts'
import type { Section, Shown } from '../section.ts'

const percentiles = [0.5, 0.9, 0.95, 0.99] as const

export function whatIfSection(app: App): Section {
  const slo = limitFields(app)
  const percentile = h('select', {
    on: {
      change: () =>
        app.whatIf && app.ask({ slo: { ...app.whatIf.slo, percentile: Number(percentile.value) } }),
    },
  })
  const kind = h(
    'select',
    { on: { change: () => setObjective() } },
    ...objectiveKinds.map((value) =>
      h('option', { attributes: { value } }, getObjectiveWords(value).choice),
    ),
  )
  const demand = numberInput('demand', 0.001, () => {
    if (['nothing', 'metric'].includes(getRequiredInput(kind.value as ObjectiveKind)))
      kind.value = defaultObjectiveKind.withDemand
    setObjective()
  })
  // Empty: plan for no demand.
  demand.required = false
  demand.placeholder = 'none'
  const headroom = numberInput('headroom', 0, () => setObjective(), 99)
  const mostPrice = numberInput('most-price', 0.001, () => setObjective())
  const mostPriceField = field('At most', mostPrice, '$ / h')
  const metric = h('select', { attributes: { id: 'metric' }, on: { change: () => setObjective() } })
  const metricField = field('Metric', metric)
  const quality = h('select', {
    attributes: { id: 'least-quality' },
    on: {
      change: () =>
        app.ask({ minQuality: quality.value === '' ? undefined : Number(quality.value) }),
    },
  })
  const qualityField = field('Quality at least', quality)
  const prices = h('div', { class: 'prices' })
  const reset = h(
    'button',
    { attributes: { type: 'button', id: 'reset' }, on: { click: () => app.reset() } },
    'Reset',
  )
  const element = h(
    'form',
    {
      class: 'whatif',
      attributes: { 'aria-label': 'What if: SLO, objective, demand and prices' },
      on: { submit: (event) => event.preventDefault() },
    },
    slo.element,
    field('at', percentile),
    field('Find the', kind),
    field('Demand', demand, 'req/s'),
    field('Headroom', headroom, '%'),
    mostPriceField,
    metricField,
    qualityField,
    h('details', {}, h('summary', {}, 'Prices'), prices),
    reset,
  )

  function setObjective(): void {
    const { whatIf, shown } = app
    if (!whatIf || !shown) return
    const maxPricePerHour =
      positive(mostPrice.value) ?? shown.recommendation.best?.pricePerHour ?? 1
    const given = positive(demand.value)
    if (given === undefined && getRequiredInput(kind.value as ObjectiveKind) === 'demand') {
      demand.focus()
      return
    }
    const demandRps = given ?? shown.planning.demandRps
    const free = Math.min(0.99, Math.max(0, headroom.valueAsNumber / 100 || 0))
    if (given !== undefined) app.plan({ demandRps, headroom: free })
    app.ask({
      objective: createObjective(kind.value as ObjectiveKind, {
        demandRps,
        headroom: free,
        maxPricePerHour,
        metric: metric.value,
      }),
    })
  }

  let bookShown = ''
  return {
    element,
    atOnce: true,
    update(shown) {
      const { whatIf, original, planning } = shown
      const { objective } = whatIf
      slo.update(shown)
      showQualities(quality, qualityField, shown)
      showPercentiles(percentile, shown)
      showMetrics(kind, metric, metricField, shown)
      kind.value = objective.kind
      if (!planning.assumed) put(demand, planning.demandRps)
      else if (document.activeElement !== demand) demand.value = ''
      put(headroom, Math.round(planning.headroom * 1000) / 10)
      const bound = getPriceBound(objective)
      mostPriceField.hidden = bound === undefined
      if (bound !== undefined) put(mostPrice, bound)
      reset.disabled = original
      const book = JSON.stringify(whatIf.prices)
      if (book !== bookShown && !prices.contains(document.activeElement)) {
        bookShown = book
        fill(prices, ...priceFields(app, shown))
      }
    },
  }
}

/** Of a range input: from a tenth to ten times the experiment's own limit, in even ratios. */
const ends = 500

/**
 * A number for each limit of the SLO, and of several limits a slider for each, for the chart has
 * but one line.
 */
function limitFields(app: App): { readonly element: HTMLElement; update(shown: Shown): void } {
  const element = h('div', { class: 'limits' })
  let made = ''
  let updates: ((slo: Slo, own: Slo) => void)[] = []
  return {
    element,
    update({ whatIf: { slo }, experiment: { slo: own } }) {
      const titles = resolveLimits(slo).map((limit) =>
        slo.limits || slo.metric ? limitTitle(limit) : 'SLO',
      )
      if (made !== titles.join()) {
        made = titles.join()
        const fields = titles.map((title, place) =>
          limitField(app, title, place, titles.length > 1),
        )
        fill(element, ...fields.map((each) => each.element))
        updates = fields.map((each) => each.update)
      }
      for (const update of updates) update(slo, own)
    },
  }
}

function limitField(app: App, title: string, place: number, slides: boolean) {
  const ask = (limitMs: number, dragging = false) =>
    app.whatIf && app.ask({ slo: replaceLimit(app.whatIf.slo, place, limitMs) }, dragging)
  const number = numberInput(place === 0 ? 'slo-limit' : `slo-limit-${place}`, 0.1, (limitMs) =>
    ask(limitMs),
  )
  const slider = h('input', {
    attributes: {
      type: 'range',
      min: -ends,
      max: ends,
      step: 1,
      id: `slo-slider-${place}`,
      'aria-label': `Limit of ${title}`,
    },
  })
  let ownMs = 1
  slider.addEventListener('input', () =>
    ask(Number((ownMs * 10 ** (slider.valueAsNumber / ends)).toPrecision(3)), true),
  )
  return {
    element: h('div', {}, field(title, number, 'ms'), slides && slider),
    update(slo: Slo, own: Slo) {
      const { limitMs } = resolveLimits(slo)[place]!
      ownMs = resolveLimits(own)[place]?.limitMs ?? limitMs
      put(number, limitMs)
      if (document.activeElement !== slider)
        slider.value = String(Math.round(ends * Math.log10(limitMs / ownMs)))
      slider.setAttribute('aria-valuetext', `${Number(limitMs.toPrecision(4))} milliseconds`)
    },
  }
}

function showQualities(
  select: HTMLSelectElement,
  around: HTMLElement,
  { experiment, whatIf: { minQuality } }: Shown,
): void {
  const qualities = [...new Set(Object.values(experiment.qualities ?? {}))].sort((a, b) => b - a)
  around.hidden = qualities.length < 2
  if (select.options.length !== qualities.length + 1) {
    const options = qualities.map((least) =>
      h('option', { attributes: { value: least } }, String(least)),
    )
    fill(select, h('option', { attributes: { value: '' } }, 'any'), ...options)
  }
  select.value = String(
    qualities.filter((each) => minQuality !== undefined && each >= minQuality).at(-1) ?? '',
  )
}

let lastRead: { last?: Shown['trials'][number]; names: readonly string[] } = { names: [] }

/** Looked up again only once a trial has joined: a drag asks sixty times a second. */
function namesRead(trials: Shown['trials']): readonly string[] {
  const last = trials.at(-1)
  if (lastRead.last !== last)
    lastRead = {
      last,
      names: trials.flatMap((trial) => Object.keys(findLastMetrics([trial]) ?? {})),
    }
  return lastRead.names
}

/** Those that trials read; without any, nothing can be ranked by one. */
function showMetrics(
  kind: HTMLSelectElement,
  select: HTMLSelectElement,
  around: HTMLElement,
  { trials, whatIf: { objective } }: Shown,
): void {
  const own = getMetric(objective)
  const names = [...new Set([...(own === undefined ? [] : [own]), ...namesRead(trials)])].sort()
  for (const option of kind.options)
    option.hidden =
      names.length === 0 && getRequiredInput(option.value as ObjectiveKind) === 'metric'
  if ([...select.options].map(({ value }) => value).join('\n') !== names.join('\n'))
    fill(select, ...names.map((value) => h('option', { attributes: { value } }, value)))
  if (own !== undefined) select.value = own
  around.hidden = own === undefined
}

/** The usual ones and the experiment's own. */
function showPercentiles(select: HTMLSelectElement, { experiment, whatIf }: Shown): void {
  const known = [...new Set([...percentiles, experiment.slo.percentile])].sort()
  if (select.options.length !== known.length)
    fill(
      select,
      ...known.map((q) =>
        h('option', { attributes: { value: q } }, `p${Number((q * 100).toFixed(3))}`),
      ),
    )
  select.value = String(whatIf.slo.percentile)
}

function priceFields(app: App, { whatIf: { prices }, devices }: Shown): HTMLElement[] {
  const row = (name: string, { perHour, source }: PriceBook['vcpu'], unit = name) => {
    const edit = (edited: number) =>
      app.whatIf && app.ask({ prices: withPrice(app.whatIf.prices, name, edited) })
    const input = numberInput(`price-${name}`, 0, edit)
    put(input, perHour)
    input.title = source
    return field(unit, input, '$ / h')
  }
  return [
    h('p', {}, `${prices.name}, ${prices.currency}`),
    row('vCPU', prices.vcpu),
    row('GiB', prices.memoryGiB, 'GiB memory'),
    ...(prices.instances
      ?.filter(({ gpu }) => devices.includes(gpu))
      .map((instance) => row(instance.name, instance)) ??
      devices.filter((gpu) => prices.gpus[gpu]).map((gpu) => row(gpu, prices.gpus[gpu]!))),
  ]
}

function numberInput(
  id: string,
  min: number,
  onValue: (value: number) => void,
  max?: number,
): HTMLInputElement {
  const input = h('input', {
    attributes: { type: 'number', id, min, max, step: 'any', inputmode: 'decimal', required: true },
  })
  input.addEventListener('input', () => {
    const value = input.valueAsNumber
    if (
      Number.isFinite(value) &&
      value >= min &&
      (max === undefined || value <= max) &&
      (min === 0 || value > 0)
    )
      onValue(value)
  })
  return input
}

const positive = (text: string): number | undefined => (Number(text) > 0 ? Number(text) : undefined)

/** Shows a value, unless someone is typing another one. */
function put(input: HTMLInputElement, value: number): void {
  if (document.activeElement !== input) input.value = String(Number(value.toPrecision(6)))
}
