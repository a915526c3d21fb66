/**
 * How the dashboard holds up: a store of many trials, the page in Chromium, load and redraw
 * measured. `npm run bench:dashboard -- 100000`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { chromium, type Page } from 'playwright-core'
import { openReader } from '../../trials/store/index.ts'
import { createDashboard } from '../dashboard/dashboard-server.ts'
import { storeManyTrials } from '../dashboard/many-trials.contract.ts'
import { hostContext } from '../dashboard/samples.contract.ts'

const count = Number(process.argv[2] ?? 100_000)
const folder = mkdtempSync(join(tmpdir(), 'tune-bench-'))
const path = join(folder, 'tune.db')
const say = (what: string, value: string) => process.stdout.write(`${what.padEnd(58)} ${value}\n`)
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`
const ms = (value: number) => `${value.toFixed(1)} ms`

/** Frame times while `work` goes on in the page, ms. */
async function frames(
  page: Page,
  work: () => Promise<void>,
): Promise<{ median: number; p95: number; most: number }> {
  await page.evaluate(`globalThis.frames_ = []; globalThis.last_ = performance.now(); globalThis.watch_ = true
    const tick = (now) => { frames_.push(now - last_); last_ = now; if (watch_) requestAnimationFrame(tick) }
    requestAnimationFrame(tick)`)
  await work()
  const all = (await page.evaluate('globalThis.watch_ = false, frames_.slice(1)')) as number[]
  const sorted = all.sort((a, b) => a - b)
  const at = (q: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN
  return { median: at(0.5), p95: at(0.95), most: at(1) }
}
const told = (f: { median: number; p95: number; most: number }) =>
  `median ${ms(f.median)}, p95 ${ms(f.p95)}, longest ${ms(f.most)}`

/**
 * Waits until an expression holds: the page's policy lets Playwright's own way of asking again not
 * in.
 */
async function until(page: Page, expression: string): Promise<void> {
  while (!(await page.evaluate(expression))) await setTimeout(20)
}

/** Durations of a measure that the page takes itself, ms: the last one. */
const lastMeasure = async (page: Page, name: string) =>
  (await page.evaluate(
    `performance.getEntriesByName('${name}', 'measure').at(-1)?.duration ?? NaN`,
  )) as number

try {
  let from = performance.now()
  await storeManyTrials(path, count)
  say(
    `filling a store with ${count.toLocaleString('en-US')} trials, five load steps each`,
    seconds(performance.now() - from),
  )
  const dashboard = await createDashboard(await openReader(path), hostContext)
  await dashboard.server.listen({ host: '127.0.0.1', port: 0 })
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info'],
  })
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } })
    page.on('pageerror', (error) => say('ERROR in the page', error.message))
    await page.addInitScript(`const look = () => {
      if (document.querySelector('#verdict')?.textContent.includes('req/s')) requestAnimationFrame((now) => { globalThis.verdictMs_ = now })
      else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)`)
    from = performance.now()
    await page.goto(`http://127.0.0.1:${(dashboard.server.server.address() as AddressInfo).port}/`)
    // By the page's own clock, from when it was asked for to the frame that has it: a page that
    // loads keeps Playwright waiting.
    await until(page, 'globalThis.verdictMs_ !== undefined')
    say('first verdict on the screen', seconds((await page.evaluate('verdictMs_')) as number))
    await page.waitForSelector('html[data-ready=true]', { state: 'attached', timeout: 600_000 })
    say('all trials loaded and ranked', seconds(performance.now() - from))
    say('ranking all under a question', ms(await lastMeasure(page, 'rank')))
    say('showing the answer (every section)', ms(await lastMeasure(page, 'show')))
    say(
      'page heap',
      `${Math.round(((await page.evaluate('performance.memory.usedJSHeapSize')) as number) / 2 ** 20)} MiB`,
    )

    const label = page.locator('.slo-label')
    await label.scrollIntoViewIfNeeded()
    const box = (await label.boundingBox())!
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
    await page.mouse.move(x, y)
    await page.mouse.down()
    const drag = await frames(page, async () => {
      for (let i = 1; i <= 60; i++) await page.mouse.move(x - i * 2, y)
    })
    say('frames while the SLO line is dragged', told(drag))
    from = performance.now()
    await page.evaluate(
      'globalThis.held_ = []; new PerformanceObserver((list) => held_.push(...list.getEntries())).observe({ entryTypes: ["longtask"] })',
    )
    await page.mouse.up()
    const limit = await page.locator('[role=slider]').getAttribute('aria-valuenow')
    await until(page, `document.querySelector('#slo-limit').value === String(${limit})`)
    say('from the end of the drag to its limit among the fields', seconds(performance.now() - from))
    say('  of it the verdict, by the contenders', ms(await lastMeasure(page, 'quick')))
    const ranked = 'performance.getEntriesByName("show", "measure").length'
    const before = (await page.evaluate(ranked)) as number
    await until(page, `${ranked} > ${before}`)
    say('until all trials are ranked and what is seen has it', seconds(performance.now() - from))
    say('  of it ranking, little by little', ms(await lastMeasure(page, 'rank')))
    say('  of it showing', ms(await lastMeasure(page, 'show')))
    const held = (await page.evaluate('held_.map(({ duration }) => duration)')) as number[]
    say(
      'longest that the page was held up by it',
      held.length === 0 ? 'under 50 ms' : ms(Math.max(...held)),
    )

    const scroller = page.locator('.scroller')
    await scroller.scrollIntoViewIfNeeded()
    await scroller.hover()
    say(
      'frames while the table is scrolled',
      told(
        await frames(page, async () => {
          for (let i = 0; i < 60; i++) await page.mouse.wheel(0, 20_000)
        }),
      ),
    )
    from = performance.now()
    await page.getByLabel('Filter the trials').fill('a100 batch 32')
    await until(page, "document.querySelector('#trials .count').textContent.includes('of')")
    say('filtering the table', seconds(performance.now() - from))
  } finally {
    await browser.close()
    await dashboard.close()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
