/** A chart in the page: drawn on a canvas, redrawn only while it is seen, exported as SVG. */
import { BarChart, CustomChart, LineChart, ParallelChart, ScatterChart } from 'echarts/charts'
import {
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  ParallelComponent,
  TooltipComponent,
} from 'echarts/components'
import { type EChartsType, init, use } from 'echarts/core'
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers'
import type { ChartOption } from '../charts/theme.ts'
import { download, h } from './dom.ts'

use([
  BarChart,
  CustomChart,
  LineChart,
  ParallelChart,
  ScatterChart,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  ParallelComponent,
  TooltipComponent,
  CanvasRenderer,
  SVGRenderer,
])

/** What a point stands for: ECharts hands the item's own data back. */
export interface Hovered {
  readonly seriesId?: string
  readonly value: readonly number[]
}

type Size = 'tall' | 'middle' | 'small' | 'strip'
/**
 * Width and height on paper, px: A4 between its margins is 700 px wide, two small charts side by
 * side.
 */
const paperSizes: Readonly<Record<Size, readonly [number, number]>> = {
  tall: [700, 400],
  middle: [700, 320],
  small: [340, 240],
  strip: [700, 110],
}
/** Many points are drawn some in each frame: paper has one, and the chart is gone in the next. */
const atOnce = (option: ChartOption): ChartOption => ({
  ...option,
  series: [option.series ?? []].flat().map((series) => ({ ...(series as object), progressive: 0 })),
})

/** Dots of a canvas to a px of paper: about 300 to the inch. */
const paperDots = 3

/**
 * Options of a chart. @param still on paper and in files nothing can be moved, and what handles say
 * is drawn
 */
type Make = (still: boolean) => ChartOption

const charts = new WeakMap<Element, Chart>()

/** The charts that are in the page, seen or not; what is hidden is left out. */
export const chartsOnPage = (): Chart[] =>
  [...document.querySelectorAll<HTMLElement>('main figure.chart')].flatMap((element) => {
    const chart = element.closest('[hidden]') ? undefined : charts.get(element)
    return chart ? [chart] : []
  })

export class Chart {
  readonly element: HTMLElement
  readonly #paper = h('div', { class: 'paper', attributes: { 'aria-hidden': 'true' } })
  #onPaper?: EChartsType
  readonly #canvas = h('div', { class: 'canvas' })
  #chart?: EChartsType
  #make?: Make
  #dirty = false
  #seen = false
  #drawn: (() => void)[] = []

  /** @param name of the exported file; `description` is what a screen reader says. */
  constructor(
    readonly name: string,
    description: string,
    private readonly size: Size = 'middle',
    private readonly hover?: (item: Hovered) => HTMLElement | undefined,
  ) {
    const save = h(
      'button',
      {
        class: 'quiet save',
        attributes: { type: 'button', 'aria-label': `Save ${name} as SVG`, title: 'Save as SVG' },
        on: { click: () => download(`${name}.svg`, 'image/svg+xml', this.svg()) },
      },
      'SVG',
    )
    this.element = h(
      'figure',
      { class: `chart ${size}`, attributes: { role: 'group', 'aria-label': description } },
      this.#canvas,
      this.#paper,
      save,
    )
    charts.set(this.element, this)
    new IntersectionObserver(
      ([entry]) => {
        this.#seen = entry?.isIntersecting ?? false
        if (this.#seen && this.#dirty) this.draw()
      },
      { rootMargin: '200px' },
    ).observe(this.element)
    new ResizeObserver(() => {
      this.#chart?.resize()
      for (const listener of this.#drawn) listener()
    }).observe(this.#canvas)
  }

  /** Shows what `make` says, now if the chart is on the screen, else when it comes there. */
  set(make: Make): void {
    this.#make = make
    this.#dirty = true
    if (this.#seen) this.draw()
  }

  /** What the chart shows, in words, for those who do not see it. */
  describe(text: string): void {
    this.element.setAttribute('aria-label', text)
  }

  draw(): void {
    if (!this.#make || this.#canvas.clientWidth === 0) return
    if (!this.#chart) {
      this.#chart = init(this.#canvas, null, { renderer: 'canvas' })
      for (const listener of this.#onInit) listener(this.#chart)
    }
    this.#dirty = false
    this.#chart.setOption(this.#option(this.#make(false)), { notMerge: true })
    for (const listener of this.#drawn) listener()
  }

  /**
   * Draws the chart as it will stand on paper, beside the one on the screen, which paper does not
   * show.
   */
  toPaper(): void {
    if (!this.#make) return
    this.fromPaper()
    const [width, height] = paperSizes[this.size]
    this.#onPaper = init(this.#paper, null, {
      renderer: 'canvas',
      width,
      height,
      devicePixelRatio: paperDots,
    })
    this.#onPaper.setOption({ ...atOnce(this.#make(true)), tooltip: { show: false } })
    this.#onPaper.getZr().flush()
  }

  fromPaper(): void {
    this.#onPaper?.dispose()
    this.#onPaper = undefined
  }

  onClick(listener: (item: Hovered) => void): void {
    this.onDraw(() => {
      this.#chart?.off('click')
      this.#chart?.on('click', (item) => listener(hovered(item)))
    })
  }

  /** After every drawing and change of size. */
  onDraw(listener: () => void): void {
    this.#drawn.push(listener)
  }

  /**
   * Presses and moves of the mouse over the canvas, with whether they are over something that can
   * be clicked.
   */
  onPointer(
    kind: 'mousedown' | 'mousemove',
    listener: (x: number, overItem: boolean) => void,
  ): void {
    this.#onInit.push((chart) =>
      chart.getZr().on(kind, ({ offsetX, target }) => listener(offsetX, target !== undefined)),
    )
  }
  readonly #onInit: ((chart: EChartsType) => void)[] = []

  set cursor(cursor: string) {
    this.#chart?.getZr().setCursorStyle(cursor)
  }

  /** Pixel of an x value, from the chart's left edge; undefined before the first drawing. */
  pixelOf(x: number): number | undefined {
    return this.#chart?.convertToPixel({ xAxisIndex: 0 }, x)
  }

  valueAt(pixel: number): number | undefined {
    return this.#chart?.convertFromPixel({ xAxisIndex: 0 }, pixel)
  }

  /** The same options as SVG text, at a size for documents. */
  svg(): string {
    const width = Math.max(640, this.#canvas.clientWidth)
    const chart = init(null, null, {
      renderer: 'svg',
      ssr: true,
      width,
      height: Math.max(320, this.#canvas.clientHeight),
    })
    try {
      chart.setOption({ ...(this.#make?.(true) ?? {}), tooltip: { show: false } })
      return chart.renderToSVGString()
    } finally {
      chart.dispose()
    }
  }

  #option(option: ChartOption): ChartOption {
    const { hover } = this
    const tooltip = option.tooltip as { appendTo?: string } | undefined
    if (!hover || tooltip?.appendTo === undefined) return option
    const formatter = (item: unknown) => hover(hovered(item)) ?? ''
    return {
      ...option,
      tooltip: {
        ...tooltip,
        className: 'tip',
        formatter,
        borderWidth: 0,
        padding: 0,
        backgroundColor: 'transparent',
        extraCssText: 'box-shadow:none',
      },
    }
  }
}

const hovered = (item: unknown): Hovered => {
  const { seriesId, value } = item as { seriesId?: string; value: unknown }
  return { seriesId, value: Array.isArray(value) ? (value as number[]) : [] }
}
