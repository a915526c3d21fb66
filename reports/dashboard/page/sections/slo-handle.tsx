/**
 * The SLO as a line on a chart, which can be dragged or moved by keys. Several limits have a slider
 * each beside the chart, and no line of their own.
 */
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { sloName } from '../../../format.ts'
import type { LatencyAxis } from '../../charts/pareto-chart.ts'
import { useLiveApp } from '../part.tsx'
import type { Plot } from '../plot.ts'

/** Pixels around the line that take it. */
const reachPx = 7
/** What a key does to the limit. */
const factors: Readonly<Record<string, number>> = {
  ArrowLeft: 1 / 1.02,
  ArrowDown: 1 / 1.02,
  ArrowRight: 1.02,
  ArrowUp: 1.02,
  PageDown: 1 / 1.2,
  PageUp: 1.2,
}

interface Handle {
  readonly plot: Plot
  /** The plot's latency axis as it is drawn. */
  readonly axis: RefObject<LatencyAxis | null>
  /** While the line is dragged the axis under it stays. */
  readonly isHeld: RefObject<boolean>
}

export function SloHandle({ plot, axis, isHeld }: Handle) {
  const app = useLiveApp()
  const handle = useRef<HTMLDivElement>(null)
  const label = useRef<HTMLSpanElement>(null)
  const slo = app.whatIf?.slo
  const limitMs = slo && slo.limits === undefined ? slo.limitMs : undefined

  /** Puts the line where the limit is. */
  function place(): void {
    if (!handle.current || !label.current) return
    const { min, max } = axis.current!
    const x =
      limitMs === undefined ? undefined : plot.locatePixel(Math.min(Math.max(limitMs, min), max))
    handle.current.hidden = x === undefined
    if (x === undefined) return
    handle.current.style.left = `${x}px`
    // The label stays whole on a narrow screen, wherever its line stands.
    const half = label.current.offsetWidth / 2
    label.current.style.marginLeft = `${Math.min(0, plot.figure.clientWidth - x - half) + Math.max(0, half - x)}px`
  }

  function ask(wantedMs: number, dragging: boolean): void {
    if (!app.whatIf) return
    const { min, max } = axis.current!
    const clamped = Math.min(Math.max(wantedMs, min * 1.01), max * 0.99)
    app.ask({ slo: { ...app.whatIf.slo, limitMs: tidy(clamped) } }, dragging)
  }

  function drag({ clientX }: PointerEvent): void {
    const wantedMs = plot.valueAt(clientX - plot.figure.getBoundingClientRect().left)
    if (wantedMs !== undefined && wantedMs > 0) ask(wantedMs, true)
  }

  function hold(): void {
    isHeld.current = true
    const release = new AbortController()
    const until = { signal: release.signal }
    const letGo = () => {
      isHeld.current = false
      release.abort()
      app.schedule()
    }
    addEventListener('pointermove', drag, until)
    addEventListener('pointerup', letGo, until)
    addEventListener('pointercancel', letGo, until)
  }

  function press(event: KeyboardEvent): void {
    const factor = factors[event.key]
    if (limitMs === undefined || factor === undefined) return
    event.preventDefault()
    // A step that rounding would undo is one of the last digit.
    const next = tidy(limitMs * factor)
    ask(next === limitMs ? limitMs + Math.sign(factor - 1) * getUnit(limitMs) : next, false)
  }

  useLayoutEffect(place)
  useLayoutEffect(() => plot.onDraw(place))
  useLayoutEffect(() => {
    // The line itself can be taken too, wherever no point lies on it.
    const isOnLine = (x: number) =>
      !handle.current?.hidden && Math.abs(x - (handle.current?.offsetLeft ?? x)) < reachPx
    plot.onPointer('mousedown', (x, overItem) => {
      if (!overItem && isOnLine(x)) hold()
    })
    plot.onPointer('mousemove', (x, overItem) => {
      if (!overItem && (isHeld.current || isOnLine(x))) plot.cursor = 'ew-resize'
    })
  }, [plot])

  return (
    <div
      ref={handle}
      class="slo-handle"
      role="slider"
      tabIndex={0}
      aria-label="SLO limit, milliseconds"
      aria-orientation="horizontal"
      title="Drag, or use the arrow keys"
      aria-valuemin={axis.current?.min}
      aria-valuemax={axis.current?.max}
      aria-valuenow={slo?.limitMs}
      aria-valuetext={`${slo?.limitMs} milliseconds`}
      onPointerDown={(event) => {
        event.preventDefault()
        event.currentTarget.focus()
        hold()
      }}
      onKeyDown={press}
    >
      <span ref={label} class="slo-label">
        {slo && `◂ SLO ${sloName(slo)} ≤ ${Number(slo.limitMs.toPrecision(4))} ms ▸`}
      </span>
    </div>
  )
}

/** Two or three digits: 47, 47.5, 130, 0.85. */
const tidy = (ms: number): number => Math.round(ms / getUnit(ms)) * getUnit(ms)
const getUnit = (ms: number): number => (ms >= 100 ? 1 : ms >= 20 ? 0.5 : ms >= 2 ? 0.1 : 0.01)
