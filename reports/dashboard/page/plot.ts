/** ECharts in an element of the page: redrawn only while it is seen, drawn for paper and as SVG. */
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
import { type ComponentChild, render } from 'preact'
import type { ChartOption } from '../charts/theme.ts'

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

export type Size = 'tall' | 'middle' | 'small' | 'strip'
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
/** Dots of a canvas to a px of paper: about 300 to the inch. */
const paperDots = 3

/**
 * ECharts draws large series over several frames. Printing takes one, so everything is drawn in it.
 */
const atOnce = (option: ChartOption): ChartOption => ({
  ...option,
  series: [option.series ?? []].flat().map((series) => ({ ...(series as object), progressive: 0 })),
})

export interface Drawing {
  /**
   * @param still for paper and files, which have no drag handles: the chart itself writes what a
   * handle would show, such as the SLO's limit
   */
  make(still: boolean): ChartOption
  /** What stands beside an item that the mouse is over. */
  hover?(item: Hovered): ComponentChild
  click?(item: Hovered): void
}

const plots = new Set<Plot>()

/** The plots of the page, seen or not, without those of dialogs. */
export const listPlots = (): Plot[] => [...plots].filter(({ figure }) => figure.closest('main'))

export class Plot {
  readonly #canvas: HTMLElement
  readonly #tip = document.createElement('div')
  #chart?: EChartsType
  #paperChart?: EChartsType
  #drawing?: Drawing
  #dirty = false
  #seen = false
  readonly #drawListeners = new Set<() => void>()
  readonly #initListeners: ((chart: EChartsType) => void)[] = []
  readonly #visible = new IntersectionObserver(
    ([entry]) => {
      this.#seen = entry?.isIntersecting ?? false
      if (this.#seen && this.#dirty) this.#draw()
    },
    { rootMargin: '200px' },
  )
  readonly #resized = new ResizeObserver(() => {
    this.#chart?.resize()
    for (const listener of this.#drawListeners) listener()
  })

  constructor(
    readonly figure: HTMLElement,
    private readonly size: Size,
  ) {
    this.#canvas = figure.querySelector<HTMLElement>('.canvas')!
    this.#visible.observe(figure)
    this.#resized.observe(this.#canvas)
    plots.add(this)
  }

  dispose(): void {
    plots.delete(this)
    this.#visible.disconnect()
    this.#resized.disconnect()
    this.#chart?.dispose()
  }

  /** Shows a drawing, now if the plot is on the screen, else when it comes there. */
  show(drawing: Drawing): void {
    this.#drawing = drawing
    this.#dirty = true
    if (this.#seen) this.#draw()
  }

  #draw(): void {
    if (!this.#drawing || this.#canvas.clientWidth === 0) return
    if (!this.#chart) {
      this.#chart = init(this.#canvas, null, { renderer: 'canvas' })
      this.#chart.on('click', (item) => this.#drawing?.click?.(hovered(item)))
      for (const listener of this.#initListeners) listener(this.#chart)
    }
    this.#dirty = false
    this.#chart.setOption(this.#withHover(this.#drawing.make(false)), { notMerge: true })
    for (const listener of this.#drawListeners) listener()
  }

  /** Draws it as it will stand on paper, beside the one on the screen, which paper does not show. */
  toPaper(): void {
    if (!this.#drawing) return
    this.clearPaper()
    const [width, height] = paperSizes[this.size]
    this.#paperChart = init(this.figure.querySelector<HTMLElement>('.paper'), null, {
      renderer: 'canvas',
      width,
      height,
      devicePixelRatio: paperDots,
    })
    this.#paperChart.setOption({ ...atOnce(this.#drawing.make(true)), tooltip: { show: false } })
    this.#paperChart.getZr().flush()
  }

  clearPaper(): void {
    this.#paperChart?.dispose()
    this.#paperChart = undefined
  }

  /** After every drawing and change of size. Returns what ends it. */
  onDraw(listener: () => void): () => void {
    this.#drawListeners.add(listener)
    return () => this.#drawListeners.delete(listener)
  }

  /**
   * Presses and moves of the mouse over the canvas, with whether they are over something that can
   * be clicked.
   */
  onPointer(
    kind: 'mousedown' | 'mousemove',
    listener: (x: number, overItem: boolean) => void,
  ): void {
    const listen = (chart: EChartsType) =>
      chart.getZr().on(kind, ({ offsetX, target }) => listener(offsetX, target !== undefined))
    if (this.#chart) listen(this.#chart)
    else this.#initListeners.push(listen)
  }

  set cursor(cursor: string) {
    this.#chart?.getZr().setCursorStyle(cursor)
  }

  /** Pixel of an x value, from the plot's left edge; undefined before the first drawing. */
  locatePixel(x: number): number | undefined {
    return this.#chart?.convertToPixel({ xAxisIndex: 0 }, x)
  }

  valueAt(pixel: number): number | undefined {
    return this.#chart?.convertFromPixel({ xAxisIndex: 0 }, pixel)
  }

  /** The same drawing as SVG text, at a size for documents. */
  svg(): string {
    const chart = init(null, null, {
      renderer: 'svg',
      ssr: true,
      width: Math.max(640, this.#canvas.clientWidth),
      height: Math.max(320, this.#canvas.clientHeight),
    })
    try {
      chart.setOption({ ...(this.#drawing?.make(true) ?? {}), tooltip: { show: false } })
      return chart.renderToSVGString()
    } finally {
      chart.dispose()
    }
  }

  #withHover(option: ChartOption): ChartOption {
    const tooltip = option.tooltip as { appendTo?: string } | undefined
    if (!this.#drawing?.hover || tooltip?.appendTo === undefined) return option
    const formatter = (item: unknown) => {
      const content = this.#drawing?.hover?.(hovered(item))
      if (content === undefined) return ''
      render(content, this.#tip)
      return this.#tip
    }
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
