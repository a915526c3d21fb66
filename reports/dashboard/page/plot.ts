/**
 * ECharts chart in an element of the page: redraws only while visible, and renders for print and as
 * SVG.
 */
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

/** A chart item under the pointer, as ECharts reports it. */
export interface ChartItem {
  readonly seriesId?: string
  readonly value: readonly number[]
}

export type Size = 'tall' | 'middle' | 'small' | 'strip'
/**
 * Width and height in print, CSS pixels: A4 between its margins is 700 px wide, and two small
 * charts fit side by side.
 */
const printSizes: Readonly<Record<Size, readonly [number, number]>> = {
  tall: [700, 400],
  middle: [700, 320],
  small: [340, 240],
  strip: [700, 110],
}
/** Canvas pixels per CSS pixel in print: about 300 dpi. */
const printPixelRatio = 3

/** ECharts draws large series over several frames, but printing waits for only one. */
const disableProgressive = (option: ChartOption): ChartOption => ({
  ...option,
  series: [option.series ?? []].flat().map((series) => ({ ...(series as object), progressive: 0 })),
})

export interface ChartSource {
  /**
   * @param isStatic for print and files, which have no drag handles: the chart itself labels what a
   * handle would show, such as the SLO's limit
   */
  createOption(isStatic: boolean): ChartOption
  /** Content of the tooltip of an item. */
  renderTooltip?(item: ChartItem): ComponentChild
  onClick?(item: ChartItem): void
}

const plots = new Set<Plot>()

/** Lists the plots of the page, visible or not, without those in dialogs. */
export const listPlots = (): Plot[] => [...plots].filter(({ figure }) => figure.closest('main'))

export class Plot {
  readonly #canvas: HTMLElement
  readonly #tooltip = document.createElement('div')
  #chart?: EChartsType
  #printChart?: EChartsType
  #source?: ChartSource
  #needsRedraw = false
  #isVisible = false
  readonly #drawListeners = new Set<() => void>()
  readonly #initListeners: ((chart: EChartsType) => void)[] = []
  readonly #visibilityObserver = new IntersectionObserver(
    ([entry]) => {
      this.#isVisible = entry?.isIntersecting ?? false
      if (this.#isVisible && this.#needsRedraw) this.#draw()
    },
    { rootMargin: '200px' },
  )
  readonly #resizeObserver = new ResizeObserver(() => {
    this.#chart?.resize()
    for (const listener of this.#drawListeners) listener()
  })

  constructor(
    readonly figure: HTMLElement,
    private readonly size: Size,
  ) {
    this.#canvas = figure.querySelector<HTMLElement>('.canvas')!
    this.#visibilityObserver.observe(figure)
    this.#resizeObserver.observe(this.#canvas)
    plots.add(this)
  }

  dispose(): void {
    plots.delete(this)
    this.#visibilityObserver.disconnect()
    this.#resizeObserver.disconnect()
    this.#chart?.dispose()
  }

  /** Shows a chart: now if the plot is visible, else when it becomes visible. */
  show(source: ChartSource): void {
    this.#source = source
    this.#needsRedraw = true
    if (this.#isVisible) this.#draw()
  }

  #draw(): void {
    if (!this.#source || this.#canvas.clientWidth === 0) return
    if (!this.#chart) {
      this.#chart = init(this.#canvas, null, { renderer: 'canvas' })
      this.#chart.on('click', (item) => this.#source?.onClick?.(readChartItem(item)))
      for (const listener of this.#initListeners) listener(this.#chart)
    }
    this.#needsRedraw = false
    this.#chart.setOption(this.#addTooltip(this.#source.createOption(false)), { notMerge: true })
    for (const listener of this.#drawListeners) listener()
  }

  /** Draws the print version next to the screen version, which the print style sheet hides. */
  drawForPrint(): void {
    if (!this.#source) return
    this.clearPrint()
    const [width, height] = printSizes[this.size]
    this.#printChart = init(this.figure.querySelector<HTMLElement>('.paper'), null, {
      renderer: 'canvas',
      width,
      height,
      devicePixelRatio: printPixelRatio,
    })
    this.#printChart.setOption({
      ...disableProgressive(this.#source.createOption(true)),
      tooltip: { show: false },
    })
    this.#printChart.getZr().flush()
  }

  clearPrint(): void {
    this.#printChart?.dispose()
    this.#printChart = undefined
  }

  /**
   * Calls a listener after every redraw and resize.
   * @returns a function that unsubscribes
   */
  onDraw(listener: () => void): () => void {
    this.#drawListeners.add(listener)
    return () => this.#drawListeners.delete(listener)
  }

  /**
   * Listens to presses and moves of the mouse over the canvas.
   * @param listener called with the x position in pixels, and whether the mouse is over an item
   */
  onPointer(
    kind: 'mousedown' | 'mousemove',
    listener: (x: number, isOverItem: boolean) => void,
  ): void {
    const listen = (chart: EChartsType) =>
      chart.getZr().on(kind, ({ offsetX, target }) => listener(offsetX, target !== undefined))
    if (this.#chart) listen(this.#chart)
    else this.#initListeners.push(listen)
  }

  set cursor(cursor: string) {
    this.#chart?.getZr().setCursorStyle(cursor)
  }

  /**
   * Converts an x value to a pixel position from the left edge of the plot.
   * @returns undefined before the first drawing
   */
  convertToPixel(x: number): number | undefined {
    return this.#chart?.convertToPixel({ xAxisIndex: 0 }, x)
  }

  /** Inverse of `convertToPixel`. */
  convertFromPixel(pixel: number): number | undefined {
    return this.#chart?.convertFromPixel({ xAxisIndex: 0 }, pixel)
  }

  /** Renders the chart as SVG text, at a size for documents. */
  renderSvg(): string {
    const chart = init(null, null, {
      renderer: 'svg',
      ssr: true,
      width: Math.max(640, this.#canvas.clientWidth),
      height: Math.max(320, this.#canvas.clientHeight),
    })
    try {
      chart.setOption({ ...(this.#source?.createOption(true) ?? {}), tooltip: { show: false } })
      return chart.renderToSVGString()
    } finally {
      chart.dispose()
    }
  }

  #addTooltip(option: ChartOption): ChartOption {
    const tooltip = option.tooltip as { appendTo?: string } | undefined
    if (!this.#source?.renderTooltip || tooltip?.appendTo === undefined) return option
    const formatter = (item: unknown) => {
      const content = this.#source?.renderTooltip?.(readChartItem(item))
      if (content === undefined) return ''
      render(content, this.#tooltip)
      return this.#tooltip
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

const readChartItem = (item: unknown): ChartItem => {
  const { seriesId, value } = item as { seriesId?: string; value: unknown }
  return { seriesId, value: Array.isArray(value) ? (value as number[]) : [] }
}
