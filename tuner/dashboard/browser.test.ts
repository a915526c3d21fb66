/** The page in a real browser: verdict, question, charts, table, exports. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { type Slo, sloName } from '../../profiler/model/slo.ts'
import { args, executablePath } from '../../reports/chromium.contract.ts'
import { money, significant } from '../../reports/format.ts'
import type { Candidate } from '../../reports/recommendation/types.ts'
import { formatGain } from '../../reports/recommendation/verdict.ts'
import { formatCapacity, formatLatencyValue } from '../../reports/recommendation/words.ts'
import { recommendationDocument } from '../../reports/report/recommendation-json.ts'
import { describeInChromium } from './in-chromium.contract.ts'
import { late } from './samples.contract.ts'

describeInChromium('the dashboard in Chromium', (its) => {
  const verdict = () => its.page.locator('#verdict')
  const slider = () => its.page.getByRole('slider')

  test('shows the verdict, where the figures come from, and hostile names as plain text', async () => {
    await its.expectVerdict('1 core, 1/4 L4 (6 GiB), batch 32')
    expect(await its.page.locator('.facts .badge').textContent()).toContain('emulated')
    expect(await its.page.locator('section.verdict').textContent()).toContain('seed 7')
    expect(await its.page.title()).toContain('<img src=x')
    expect(await its.page.locator('img').count()).toBe(0)
    expect(await its.page.locator('#trials').textContent()).toContain(
      '<script>window.attacked=1</script>',
    )
  })

  test('every figure on the page is that of the JSON document', async () => {
    const href = await its.page.getByRole('link', { name: /JSON/ }).getAttribute('href')
    const r = recommendationDocument.parse(
      await (await its.page.request.get(new URL(href!, its.base).href)).json(),
    )
    const best = r.best as unknown as Candidate
    const slo = r.slo as Slo
    const verdict = its.page.locator('section.verdict')
    const names = await verdict.locator('.tiles dt').allTextContents()
    const values = await verdict.locator('.tiles dd').allTextContents()
    const shown = {
      sentence: await verdict.locator('#verdict').textContent(),
      conclusion: await verdict.locator('#verdict').getAttribute('data-conclusion'),
      tiles: Object.fromEntries(names.map((name, n) => [name, values[n]])),
      caveats: await verdict.locator('.caveats li').allTextContents(),
      rivals: await verdict.locator('.rivals li').allTextContents(),
    }
    expect(await verdict.locator('.three > div').count()).toBe(3)
    expect(await verdict.locator('.caveats').isVisible(), 'notes are one click away').toBe(false)
    await verdict.locator('summary').first().click()
    expect(await verdict.locator('.caveats').isVisible()).toBe(true)
    const gain = formatGain(r.objective, r.gainOverDefault!)
    expect(await verdict.locator('.three').textContent()).toContain(gain)
    expect(shown.sentence).toBe(r.verdict)
    expect(shown.conclusion).toBe(r.conclusion)
    expect(shown.tiles.status).toContain(best.status)
    expect(shown.tiles['safe capacity of one replica']).toContain(formatCapacity(best))
    expect(shown.tiles[`${sloName(slo)} there`]).toContain(formatLatencyValue(slo, best))
    expect(shown.tiles['one replica']).toContain(money(best.pricePerHour))
    expect(shown.tiles['against the baseline']).toContain(gain)
    expect(shown.tiles.bottleneck).toContain(r.binding.evidence)
    expect(shown.caveats).toEqual(r.caveats)
    const others = r.alternatives as unknown as (Candidate & { whyNot: string })[]
    for (const [i, text] of shown.rivals.entries())
      for (const part of [
        others[i]!.label,
        others[i]!.status,
        formatCapacity(others[i]!),
        others[i]!.whyNot,
      ])
        expect(text).toContain(part)
    const drawn = await its.page.locator('#trials tbody tr:not(.spacer)').all()
    const rows = await Promise.all(
      drawn.map((row) => row.locator('td:not(.pick)').allTextContents()),
    )
    for (const c of [best, ...others]) {
      const row = rows.find((cells) => cells[1] === String(c.trial))!
      expect(row[3]).toContain(c.status)
      expect(row[4]).toBe(c.capacityRps > 0 ? significant(c.capacityRps) : '')
    }
  })

  test('dragging the SLO line re-ranks at once, and back again', async () => {
    await its.expectVerdict('batch 32')
    const label = its.page.locator('.slo-label')
    await label.scrollIntoViewIfNeeded()
    const box = (await label.boundingBox())!
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
    await its.page.mouse.move(x, y)
    await its.page.mouse.down()
    for (let step = 1; step <= 30; step++) {
      await its.page.mouse.move(x - step * 12, y)
      if (Number(await slider().getAttribute('aria-valuenow')) < 16) break
    }
    await its.expectVerdict('2 cores, 1/4 T4 (4 GiB), batch 8')
    await its.page.mouse.up()
    // The fields follow the line a frame later.
    await expect
      .poll(async () => Number(await its.page.locator('#slo-limit').inputValue()))
      .toBeLessThan(18)
    expect(await its.page.locator('section.verdict').textContent()).toContain('no new trials')
    await its.page.getByRole('button', { name: 'Reset' }).click()
    await its.expectVerdict('batch 32')
    expect(await slider().getAttribute('aria-valuenow')).toBe('50')
  })

  test('the SLO can be moved by keyboard and by number, prices and demand by number', async () => {
    await slider().focus()
    await its.page.keyboard.press('ArrowLeft')
    await its.page.locator('[role=slider][aria-valuenow="49"]').waitFor({ state: 'attached' })
    await its.page.locator('#slo-limit').fill('15')
    await its.expectVerdict('batch 8')
    await its.page.locator('#slo-limit').fill('50')
    await its.expectVerdict('batch 32')
    await its.page.getByText('Prices', { exact: true }).click()
    await its.page.locator('#price-L4').fill('40')
    await its.expectVerdict('T4')
    await its.page.getByRole('button', { name: 'Reset' }).click()
    await its.page.locator('#demand').fill('2000')
    await its.expectVerdict('replicas for 2,000 req/s')
    expect(await its.page.locator('#capacity').textContent()).toMatch(
      /5 replicas of .* carry 2,000 req\/s/,
    )
  })

  test('a metric of the server that was read may be ranked by, is in the address, and stands among the figures', async () => {
    const metric = its.page.locator('#metric')
    expect(await metric.isVisible()).toBe(false)
    await its.page.getByLabel('Find the').selectOption('min-metric')
    await its.expectVerdict('2 cores, 1/4 T4 (4 GiB), batch 8')
    expect(await metric.isVisible()).toBe(true)
    expect(await its.page.locator('#verdict').textContent()).toMatch(/depth\{of=.*\} -2/)
    await its.page.getByLabel('Find the').selectOption('max-metric')
    await its.expectVerdict('batch 32')
    await its.page.waitForURL(/objective=max-metric&.*metric=depth/)
    await its.page.reload()
    await its.expectVerdict('depth{of=')
    expect(await its.page.locator('section.verdict .tiles').textContent()).toMatch(
      /depth\{of=.*\}4metric of the server, read at 576 req\/s/,
    )
    await its.page.locator('#slo-limit').fill('15')
    await its.expectVerdict('No configuration is known to meet p99 <= 15 ms')
    expect(await its.page.locator('#trials').textContent()).toContain(
      'which the objective ranks by, was not read at',
    )
  })

  test('cost and capacity are told by GPU, with the baseline and what was gained, and per hour too', async () => {
    const chart = its.page.locator('#decide figure')
    const words = await chart.getAttribute('aria-label')
    expect(words).toMatch(/Recommended: 1 core, 1\/4 L4 .*per million requests.*Baseline: /)
    await its.page.getByRole('radio', { name: 'per hour, one replica' }).check()
    expect(await chart.getAttribute('aria-label')).toContain('per hour, one replica')
    await its.page.locator('#demand').fill('2000')
    await its.expectVerdict('replicas for 2,000 req/s')
    expect(await its.page.getByRole('radio', { name: 'per hour, all replicas' }).isChecked()).toBe(
      true,
    )
    expect(await chart.getAttribute('aria-label')).toContain('per hour, all replicas')
  })

  test('a click on a point of the Pareto chart opens its trial', async () => {
    const canvas = its.page.locator('#pareto canvas').first()
    await canvas.scrollIntoViewIfNeeded()
    const box = (await canvas.boundingBox())!
    const x = (await its.page.locator('.slo-handle').boundingBox())!.x
    // The recommended point stands on the SLO line, somewhere between the top of the plot and its
    // bottom.
    for (let y = box.y + 66; y < box.y + box.height - 50; y += 4) {
      await its.page.mouse.click(x, y)
      if (await its.page.locator('dialog[open]').isVisible()) break
    }
    const title = await its.page.locator('#trial-title').textContent()
    expect(title).toMatch(/^Trial \d: /)
    expect(await its.page.locator('dialog[open]').textContent()).toContain('Load')
    await its.page.keyboard.press('Escape')
    await its.page.locator('dialog[open]').waitFor({ state: 'detached' })
  })

  test('the table sorts, filters, and opens trials and their logs, all by keyboard', async () => {
    const first = () => its.page.locator('#trials tbody tr:not(.spacer)').first().textContent()
    await its.page.getByRole('button', { name: /^safe capacity/ }).focus()
    await its.page.keyboard.press('Enter')
    expect(await its.page.locator('#trials th[aria-sort=ascending]').textContent()).toContain(
      'safe capacity',
    )
    const least = await first()
    await its.page.keyboard.press('Enter')
    expect(await its.page.locator('#trials th[aria-sort=descending]').textContent()).toContain(
      'safe capacity',
    )
    expect(await first()).not.toBe(least)
    await its.page.getByLabel('Filter the trials').fill('l4 batch 32')
    expect(await its.page.locator('#trials .count').textContent()).toBe('2 of 7')
    await its.page.getByRole('button', { name: 'Open trial 4' }).focus()
    await its.page.keyboard.press('Enter')
    await its.page.getByText('Log of the predictor').click()
    await its.page.locator('dialog .log', { hasText: 'ready' }).waitFor()
    expect(await its.page.locator('dialog .log').textContent()).toContain('<img src=x')
    await its.page.getByRole('button', { name: 'Close' }).click()
    await its.page.getByLabel('Filter the trials').fill('')
    await its.page.getByLabel('Which trials').selectOption('infeasible')
    expect(await its.page.locator('#trials .count').textContent()).toBe('2 of 7')
  })

  test('draws every configuration across its parameters, and the capacity around the best over the two parameters that are chosen', async () => {
    const figure = (named: RegExp) => its.page.getByRole('group', { name: named })
    await its.page.locator('#matters summary').click()
    await figure(/configurations that served, one line each.*recommended: .*batch 32/).waitFor()
    await figure(/^Capacity along batchSize: 1: /).waitFor({ timeout: 60_000 })
    for (const [i, name] of ['cpuCores', 'batchSize'].entries()) {
      await its.page.getByLabel(`Parameter ${['across', 'up'][i]}`).selectOption(name)
      await expect
        .poll(() => its.page.getByLabel(`Parameter ${['across', 'up'][i]}`).inputValue())
        .toBe(name)
    }
    await figure(/^Capacity over cpuCores and batchSize: highest at /).waitFor({ timeout: 60_000 })
    await figure(/configurations that served, one line each/).scrollIntoViewIfNeeded()
    const { x, y, width, height } = (await figure(
      /configurations that served, one line each/,
    ).boundingBox())!
    // Half way between the last two axes, on the recommended line.
    const opened = its.page.locator('dialog .outcome')
    for (let share = 0.3; share < 0.98 && !(await opened.isVisible()); share += 0.01)
      await its.page.mouse.click(x + width * 0.88, y + height * share)
    await opened.waitFor()
  })

  test('tells parameter importance, with intervals, from a worker', async () => {
    await its.page.locator('#matters summary').click()
    await its.page.locator('#matters .effects figure').first().waitFor({ timeout: 60_000 })
    expect(
      await its.page.locator('[aria-label^="Importance: "]').getAttribute('aria-label'),
    ).toMatch(/gpu \d+(\.\d+)? %, .* to /)
    expect(
      await its.page.locator('[aria-label*="predicted 90 % interval"]').getAttribute('aria-label'),
    ).toMatch(/^\d of 1 /)
  })

  test('compares two experiments', async () => {
    await its.page.locator('#compare-with').selectOption('older-0001')
    await its.page
      .getByText('Measured in both, this one and older-0001: 7 configurations')
      .waitFor()
    expect(await its.page.locator('#compare').textContent()).toContain(
      'overlap: difference not certain',
    )
  })

  test('exports under the question that is asked: CSV, JSON, SVG, spec, and a page that works without a server', async () => {
    await its.page.locator('#slo-limit').fill('15')
    await its.expectVerdict('batch 8')
    const saved = async (click: () => Promise<void>) => {
      const [download] = await Promise.all([its.page.waitForEvent('download'), click()])
      const path = join(its.folder, download.suggestedFilename())
      await download.saveAs(path)
      return { path, text: readFileSync(path, 'utf8') }
    }
    const json = await saved(() => its.page.getByRole('link', { name: /JSON/ }).click())
    expect(JSON.parse(json.text)).toMatchObject({ best: { trial: 2 }, slo: { limitMs: 15 } })
    expect(
      (await saved(() => its.page.getByRole('button', { name: /CSV/ }).click())).text.split('\r\n'),
    ).toHaveLength(9)
    const svg = await saved(() =>
      its.page.getByRole('button', { name: 'Save pareto as SVG' }).click(),
    )
    expect(svg.text).toMatch(/^<svg .*Pareto front/s)
    await its.page.getByLabel('Target of the deployment spec').selectOption('kubernetes')
    await its.page.locator('#spec', { hasText: 'kind: Deployment' }).waitFor()
    expect(await its.page.locator('#spec').textContent()).toContain('trial 2')

    const copy = await saved(() => its.page.getByRole('link', { name: /self-contained/ }).click())
    const offline = await its.newPage()
    const asked: string[] = []
    offline.on(
      'request',
      (request) =>
        !request.url().startsWith('file:') &&
        !request.url().startsWith('data:') &&
        asked.push(request.url()),
    )
    await offline.goto(`file://${copy.path}`)
    await offline.locator('#verdict', { hasText: 'batch 32' }).waitFor()
    // Under 15 ms too few configurations serve to tell what matters: asked before.
    await offline.locator('#matters summary').click()
    await offline.locator('#matters .effects figure').first().waitFor({ timeout: 60_000 })
    await offline.locator('#slo-limit').fill('15')
    await offline.locator('#verdict', { hasText: 'batch 8' }).waitFor()
    expect(asked).toEqual([])
    await offline.close()
  })

  test('a page of another name for this address is refused', async () => {
    const rebound = await chromium.launch({
      executablePath,
      args: [...args, '--host-resolver-rules=MAP evil.example 127.0.0.1'],
    })
    try {
      const stranger = await rebound.newPage()
      const answer = await stranger.goto(its.base.replace('127.0.0.1', 'evil.example'))
      expect(answer?.status()).toBe(403)
    } finally {
      await rebound.close()
    }
  })

  test('a trial that finishes in another process appears, and the verdict with it', async () => {
    await its.expectVerdict('batch 32')
    expect(await its.page.locator('.state').textContent()).toContain('running, 7 of at most 20')
    await its.sample.store.append(its.sample.id, late)
    await its.expectVerdict('1 core, 1/4 L4 (6 GiB), batch 8')
    expect(await its.page.locator('#trials .count').textContent()).toBe('8')
    await its.sample.store.finish(its.sample.id, 'done', {})
    await its.page.locator('.state', { hasText: 'done' }).waitFor({ timeout: 60_000 })
    expect(await verdict().textContent()).toContain('batch 8')
  })
})
