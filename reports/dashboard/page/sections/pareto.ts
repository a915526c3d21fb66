/** The Pareto chart, and on it the SLO as a line that can be dragged. */

import { money, rate, rateInterval, significant, sloName, sloText, sloValue } from '../../../format.ts'
import { type LatencyAxis, latencyAxis, paretoOption, type Throughput } from '../../charts/pareto-chart.ts'
import { deviceOf } from '../../ranking.ts'
import type { App, Section, Shown } from '../app.ts'
import { Chart, type Hovered } from '../chart.ts'
import { h, setAttributes } from '../dom.ts'

const curvesDrawn = 14
/** Pixels around the line that take it. */
const reach = 7

export function paretoSection(app: App): Section {
  let throughput: Throughput = 'per-dollar'
  let latencies: LatencyAxis = { type: 'log', logBase: 2, min: 1, max: 128 }
  let held = false
  const chart = new Chart('pareto', 'Latency against throughput', 'tall', (item) => app.shown && hoverCard(app.shown, item))
  const label = h('span', { class: 'slo-label' })
  const handle = h(
    'div',
    {
      class: 'slo-handle',
      attributes: {
        role: 'slider',
        tabindex: 0,
        'aria-label': 'SLO limit, milliseconds',
        'aria-orientation': 'horizontal',
        title: 'Drag, or use the arrow keys',
      },
    },
    label,
  )
  chart.element.append(handle)
  chart.onClick((item) => {
    const trial = item.value[2]
    if (trial !== undefined) app.actions.openTrial(trial)
  })
  chart.onDraw(() => place())

  function place(): void {
    const limit = app.whatIf?.slo.limitMs
    const x = limit === undefined ? undefined : chart.pixelOf(Math.min(Math.max(limit, latencies.min), latencies.max))
    handle.hidden = x === undefined
    if (x === undefined || limit === undefined || !app.whatIf) return
    handle.style.left = `${x}px`
    label.textContent = app.whatIf.slo.limits
      ? `◂ SLO ${sloText(app.whatIf.slo)} ▸`
      : `◂ SLO ${sloName(app.whatIf.slo)} ≤ ${Number(limit.toPrecision(4))} ms ▸`
    handle.classList.toggle('flip', x > chart.element.clientWidth - 110)
    setAttributes(handle, {
      'aria-valuemin': latencies.min,
      'aria-valuemax': latencies.max,
      'aria-valuenow': limit,
      'aria-valuetext': `${limit} milliseconds`,
    })
  }

  function ask(limitMs: number, dragging: boolean): void {
    if (!app.whatIf) return
    const clamped = Math.min(Math.max(limitMs, latencies.min * 1.01), latencies.max * 0.99)
    app.ask({ slo: { ...app.whatIf.slo, limitMs: tidy(clamped) } }, dragging)
    place()
  }

  function drag(event: PointerEvent): void {
    const limit = chart.valueAt(event.clientX - chart.element.getBoundingClientRect().left)
    if (limit !== undefined && limit > 0) ask(limit, true)
  }
  function hold(): void {
    held = true
    addEventListener('pointermove', drag)
    addEventListener('pointerup', release)
    addEventListener('pointercancel', release)
  }
  function release(): void {
    held = false
    removeEventListener('pointermove', drag)
    removeEventListener('pointerup', release)
    removeEventListener('pointercancel', release)
    app.schedule()
  }
  handle.addEventListener('pointerdown', (event) => {
    event.preventDefault()
    handle.focus()
    hold()
  })
  // The line itself can be taken too, wherever no point lies on it.
  const onLine = (x: number) => Math.abs(x - handle.offsetLeft) < reach
  chart.onPointer('mousedown', (x, overItem) => {
    if (!overItem && onLine(x)) hold()
  })
  chart.onPointer('mousemove', (x, overItem) => {
    if (!overItem && (held || onLine(x))) chart.cursor = 'ew-resize'
  })
  handle.addEventListener('keydown', (event) => {
    const limit = app.whatIf?.slo.limitMs
    const step = { ArrowLeft: 1 / 1.02, ArrowDown: 1 / 1.02, ArrowRight: 1.02, ArrowUp: 1.02, PageDown: 1 / 1.2, PageUp: 1.2 }[event.key]
    if (limit === undefined || step === undefined) return
    event.preventDefault()
    // A step that rounding would undo is one of the last digit.
    const next = tidy(limit * step)
    ask(next === limit ? limit + Math.sign(step - 1) * unitOf(limit) : next, false)
  })

  const choose = (value: Throughput, text: string) => {
    const input = h('input', { attributes: { type: 'radio', name: 'throughput', value, checked: value === throughput } })
    input.addEventListener('change', () => {
      throughput = value
      if (app.shown) show(app.shown)
    })
    return h('label', {}, input, text)
  }
  function show(shown: Shown): void {
    const { recommendation: r, candidates, trials, whatIf, devices, theme, ranker } = shown
    if (!held) latencies = latencyAxis(trials, r.slo.percentile, r.slo.limitMs)
    const drawn = candidates.filter((c) => c.capacityRps > 0).slice(0, curvesDrawn)
    chart.set(() =>
      paretoOption({ recommendation: r, trials, latencies, curves: ranker.judged(trials, drawn, whatIf), throughput, devices }, theme),
    )
    chart.describe(
      `Pareto chart of ${candidates.length} configurations. ${r.best ? `Recommended: ${r.best.label}, ${rate(r.best.capacityRps)}.` : 'None meets the SLO.'} Front: ${r.front.map((c) => `${sloValue(r.slo, c.sloMsAtCapacity)}: ${rate(c.capacityRps)} for ${money(c.pricePerHour)} per hour`).join('; ')}`,
    )
    place()
  }
  const element = h(
    'section',
    { attributes: { id: 'pareto', 'aria-label': 'Pareto front' } },
    h(
      'header',
      {},
      h('h2', {}, 'Latency against throughput'),
      h(
        'fieldset',
        { class: 'switch' },
        h('legend', { class: 'unseen' }, 'Throughput'),
        choose('per-dollar', 'per dollar'),
        choose('per-second', 'per second'),
      ),
    ),
    chart.element,
    h(
      'p',
      { class: 'note' },
      'Each point is a configuration at the highest rate that keeps the SLO, with its 90 % interval; thin lines are its load curve, hollow points on it are modelled, not measured. Drag the SLO line to ask for another SLO. Click a point to open its trial.',
    ),
  )
  return { element, update: show }
}

/** Two or three digits: 47, 47.5, 130, 0.85. */
const tidy = (ms: number): number => Math.round(ms / unitOf(ms)) * unitOf(ms)
const unitOf = (ms: number): number => (ms >= 100 ? 1 : ms >= 20 ? 0.5 : ms >= 2 ? 0.1 : 0.01)

/** What a hover shows of a trial. */
export function hoverCard(shown: Shown, { value }: Hovered): HTMLElement | undefined {
  const number = value[value.length - 1]
  const trial = shown.trials.find((t) => t.number === number)
  if (!trial) return undefined
  const c = shown.byTrial.get(trial.number)
  const lines: [string, string][] = c
    ? [
        ['capacity', c.capacityRps > 0 ? `${rate(c.capacityRps)} (${rateInterval(c.capacityCi90Rps)})` : 'none'],
        [sloName(shown.whatIf.slo), sloValue(shown.whatIf.slo, c.sloMsAtCapacity)],
        ...(c.quality === undefined ? [] : [['quality', String(c.quality)] as [string, string]]),
        ['price', `${money(c.pricePerHour)} / h`],
        ...(c.capacityRps > 0 ? [['per million', money(c.pricePerMillionRequests)] as [string, string]] : []),
        ...(c.reason ? [['why not', c.reason] as [string, string]] : []),
      ]
    : [
        ['state', trial.purpose ?? trial.state],
        ['took', `${significant(trial.seconds)} s`],
      ]
  return h(
    'div',
    { class: 'card' },
    h('strong', {}, `Trial ${trial.number}`),
    h('span', {}, c?.label ?? shown.ranker.label(trial.configuration)),
    h('dl', {}, ...lines.map(([name, text]) => [h('dt', {}, name), h('dd', {}, text)])),
    h('small', {}, deviceOf(trial.configuration)),
  )
}
