/** The table of trials: only the rows in view exist, so that 100,000 scroll as ten do. */

import type { Slo } from '../../../../profiler/types.ts'
import type { FinishedTrial } from '../../../../trials/types.ts'
import { latency, money, percent, percentileName, rateInterval, significant, sloName } from '../../../format.ts'
import type { Status } from '../../../recommendation/status.ts'
import type { Candidate } from '../../../recommendation/types.ts'
import type { App, Section, Shown } from '../app.ts'
import { fill, h, setAttributes } from '../dom.ts'

interface Row {
  readonly trial: FinishedTrial
  readonly candidate?: Candidate
  readonly label: string
  readonly rank: number
  readonly outcome: string
  readonly kind: Kind
}
type Kind = Status | 'again' | 'later'

/** Statuses, and trials that stand for no configuration. */
const kinds: Readonly<Record<Kind, string>> = {
  confirmed: '✓ confirmed',
  held: '✓ held',
  measured: '· measured',
  bound: '≤ bound',
  refuted: '✕ refuted',
  disturbed: '~ disturbed',
  infeasible: '⊘ infeasible',
  failed: '! failed',
  again: '↻ second measurement',
  later: '· measured again later',
}

interface Column {
  readonly name: string
  readonly numeric?: boolean
  readonly key: (row: Row) => number | string
  readonly cell: (row: Row) => string
}

const absent = Number.POSITIVE_INFINITY
const number = (name: string, of: (c: Candidate) => number | undefined, show: (value: number) => string): Column => ({
  name,
  numeric: true,
  key: ({ candidate }) => (candidate ? (of(candidate) ?? absent) : absent),
  cell: ({ candidate }) => {
    const value = candidate && of(candidate)
    return value === undefined || !Number.isFinite(value) ? '' : show(value)
  },
})

/** Under several limits the part of them, short for a narrow column. */
const partOrLatency = ({ limits, limitMs }: Slo) => (limits ? (ms: number) => percent(ms / limitMs) : latency)

const columnsFor = (slo: Slo, qualities: boolean): readonly Column[] => [
  { name: 'rank', numeric: true, key: (r) => r.rank, cell: (r) => (r.rank < absent ? String(r.rank) : '') },
  { name: 'trial', numeric: true, key: (r) => r.trial.number, cell: (r) => String(r.trial.number) },
  { name: 'configuration', key: (r) => r.label, cell: (r) => r.label },
  { name: 'status', key: (r) => r.kind, cell: (r) => kinds[r.kind] },
  number('capacity', (c) => (c.capacityRps > 0 ? c.capacityRps : undefined), significant),
  {
    name: '90 % interval',
    numeric: true,
    key: (r) => (r.candidate?.capacityRps ? r.candidate.capacityCi90Rps[0] : absent),
    cell: intervalOf,
  },
  ...(qualities ? [number('quality', (c) => c.quality, String)] : []),
  {
    name: slo.limits ? `${percentileName(slo.percentile)} of limits` : sloName(slo),
    numeric: true,
    key: ({ candidate }) => candidate?.sloMsAtCapacity ?? absent,
    cell: ({ candidate: c }) =>
      c && Number.isFinite(c.sloMsAtCapacity)
        ? `${partOrLatency(slo)(c.sloMsAtCapacity)}${{ measured: '', model: ' (model)', idle: ' (idle)' }[c.sloMsFrom]}`
        : '',
  },
  number('idle', (c) => c.idleMs, partOrLatency(slo)),
  number('$ / h', (c) => c.pricePerHour, money),
  number('$ / M req', (c) => c.pricePerMillionRequests, money),
  { name: 'took', numeric: true, key: (r) => r.trial.seconds, cell: (r) => `${significant(r.trial.seconds)} s` },
  { name: 'why', key: (r) => r.outcome, cell: (r) => r.outcome },
]

function intervalOf({ candidate: c }: Row): string {
  if (!c || c.capacityRps <= 0) return ''
  return rateInterval(c.capacityCi90Rps)
}

const rowHeight = 32
const spare = 8

export function trialsSection(app: App): Section {
  let rows: readonly Row[] = []
  let view: readonly Row[] = []
  let columns: readonly Column[] = []
  let sort = { column: 0, descending: false }
  const search = h('input', {
    attributes: { type: 'search', id: 'trial-filter', placeholder: 'batch 8, T4, out of memory', 'aria-label': 'Filter the trials' },
    on: { input: () => arrange() },
  })
  const state = h(
    'select',
    { attributes: { 'aria-label': 'Which trials' }, on: { change: () => arrange() } },
    h('option', { attributes: { value: '' } }, 'all trials'),
    ...Object.entries(kinds).map(([value, text]) => h('option', { attributes: { value } }, text)),
  )
  const count = h('span', { class: 'count', attributes: { role: 'status' } })
  const head = h('tr', {})
  const above = h('tr', { class: 'spacer', attributes: { 'aria-hidden': 'true' } }, h('td', {}))
  const below = h('tr', { class: 'spacer', attributes: { 'aria-hidden': 'true' } }, h('td', {}))
  const body = h('tbody', {})
  const grid = h('table', {}, h('caption', { class: 'unseen' }, 'Trials'), h('thead', {}, head), body)
  const scroller = h(
    'div',
    { class: 'scroller', attributes: { tabindex: 0, role: 'group', 'aria-label': 'Table of trials' }, on: { scroll: () => draw() } },
    grid,
  )
  const element = h(
    'section',
    { attributes: { id: 'trials', 'aria-label': 'Trials' } },
    h('header', {}, h('h2', {}, 'Trials'), h('div', { class: 'filters' }, search, state, count)),
    scroller,
  )
  addEventListener('beforeprint', () => draw(true))
  addEventListener('afterprint', () => draw())

  function arrange(): void {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
    const fits = (r: Row) => {
      if (state.value !== '' && r.kind !== state.value) return false
      if (words.length === 0) return true
      const text = `${r.trial.number} ${r.label} ${kinds[r.kind]} ${r.outcome}`.toLowerCase()
      return words.every((w) => text.includes(w))
    }
    const { key } = columns[sort.column]!
    const direction = sort.descending ? -1 : 1
    const kept = words.length > 0 || state.value !== '' ? rows.filter(fits) : rows
    const keyed = kept.map((row) => ({ row, key: key(row) }))
    // What has no value stands last, whichever way the rest is sorted.
    keyed.sort((a, b) => (a.key === b.key ? 0 : a.key === absent ? 1 : b.key === absent ? -1 : a.key < b.key ? -direction : direction))
    view = keyed.map(({ row }) => row)
    fill(
      count,
      view.length === rows.length
        ? `${rows.length.toLocaleString('en-US')}`
        : `${view.length.toLocaleString('en-US')} of ${rows.length.toLocaleString('en-US')}`,
    )
    setAttributes(grid, { 'aria-rowcount': view.length + 1 })
    drawn = ''
    draw()
  }

  function drawHead(): void {
    fill(
      head,
      ...columns.map((column, i) => {
        const sorted = sort.column === i
        const button = h(
          'button',
          { class: 'quiet', attributes: { type: 'button' }, on: { click: () => sortBy(i) } },
          column.name,
          sorted && (sort.descending ? ' ↓' : ' ↑'),
        )
        return h(
          'th',
          {
            class: column.numeric ? 'n' : undefined,
            attributes: { scope: 'col', 'aria-sort': sorted ? (sort.descending ? 'descending' : 'ascending') : 'none' },
          },
          button,
        )
      }),
    )
  }

  function sortBy(column: number): void {
    sort = { column, descending: sort.column === column && !sort.descending }
    drawHead()
    arrange()
    ;(head.children[column]?.firstElementChild as HTMLElement | null)?.focus()
  }

  let drawn = ''
  function draw(whole = false): void {
    const from = whole ? 0 : Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - spare)
    const shown = whole ? 500 : Math.ceil((scroller.clientHeight || 400) / rowHeight) + 2 * spare
    const to = Math.min(view.length, from + shown)
    const key = `${from} ${to}`
    if (key === drawn) return
    drawn = key
    above.style.height = `${from * rowHeight}px`
    below.style.height = whole ? '0' : `${(view.length - to) * rowHeight}px`
    fill(body, above, ...view.slice(from, to).map((row, i) => line(row, from + i)), below)
  }

  function line(row: Row, index: number): HTMLElement {
    const open = () => app.actions.openTrial(row.trial.number)
    return h(
      'tr',
      { class: row.kind, attributes: { 'aria-rowindex': index + 2 }, on: { click: open } },
      ...columns.map((column, i) => {
        const text = column.cell(row)
        return h(
          'td',
          { class: column.numeric ? 'n' : undefined, attributes: { title: text.length > 24 ? text : undefined } },
          i === 1 ? h('button', { class: 'quiet link', attributes: { type: 'button', 'aria-label': `Open trial ${text}` } }, text) : text,
        )
      }),
    )
  }

  drawHead()
  let headed = ''
  return {
    element,
    update(shown) {
      const { slo } = shown.whatIf
      const qualities = shown.candidates.some((c) => c.quality !== undefined)
      const heads = `${sloName(slo)} ${qualities} ${slo.limits ? slo.limitMs : ''}`
      if (heads !== headed) {
        headed = heads
        columns = columnsFor(slo, qualities)
        drawHead()
      }
      rows = rowsOf(shown)
      arrange()
    },
  }
}

function rowsOf({ trials, byTrial, candidates, ranker, recommendation: r }: Shown): Row[] {
  const ranks = new Map<number, number>()
  for (const [i, c] of candidates.entries()) if (c.feasible) ranks.set(c.trial, i + 1)
  const whyNot = new Map(r.alternatives.map((a) => [a.trial, a.whyNot]))
  return trials.map((trial): Row => {
    const candidate = trial.purpose === 'confirmation' ? undefined : byTrial.get(trial.number)
    const label = candidate?.label ?? ranker.label(trial.configuration)
    const outcome =
      trial.number === r.best?.trial
        ? r.conclusion === 'unconfirmed'
          ? 'best found, NOT confirmed'
          : 'recommended'
        : (whyNot.get(trial.number) ?? candidate?.reason ?? notCounted(trial))
    return { trial, candidate, label, rank: ranks.get(trial.number) ?? absent, outcome, kind: kindOf(trial, candidate) }
  })
}

const kindOf = (trial: FinishedTrial, candidate: Candidate | undefined): Kind =>
  candidate?.status ?? (trial.purpose === 'confirmation' ? 'again' : trial.state === 'failed' ? 'failed' : 'later')

const notCounted = (trial: FinishedTrial): string =>
  trial.purpose === 'confirmation'
    ? 'second measurement of the winner'
    : trial.state === 'failed'
      ? trial.error
      : trial.state === 'infeasible'
        ? trial.detail
        : 'measured again later'
