/**
 * Chart options to SVG text, on the server, without a DOM. The same options render in a browser.
 */
import type { EChartsOption } from 'echarts'

/** Height of the plot with its axis, CSS pixels; the legend comes on top. */
const plotHeight = 360
/** CSS pixels. */
const width = 900

const computeLegendHeight = ({ grid }: EChartsOption): number =>
  grid && !Array.isArray(grid) && typeof grid.top === 'number' ? grid.top : 0

/**
 * SVG of a chart. Its height follows from what stands above the plot.
 * The charting library is loaded on first use: it takes long.
 */
export async function renderSvg(option: EChartsOption): Promise<string> {
  const [{ init, use }, charts, components, { SVGRenderer }] = await Promise.all([
    import('echarts/core'),
    import('echarts/charts'),
    import('echarts/components'),
    import('echarts/renderers'),
  ])
  use([
    charts.LineChart,
    charts.ScatterChart,
    components.GridComponent,
    components.LegendComponent,
    components.MarkLineComponent,
    components.MarkAreaComponent,
    components.TitleComponent,
    SVGRenderer,
  ])
  const height = plotHeight + computeLegendHeight(option)
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height })
  try {
    chart.setOption({ animation: false, backgroundColor: '#fff', ...option })
    return chart.renderToSVGString()
  } finally {
    // Undisposed, its timer keeps the process alive.
    chart.dispose()
  }
}
