#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graph and heat map in headless Chromium: what a pointer and keys do to them. The expected
values are the text output of the same recording."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../replay"))
import noise  # noqa: E402
import recording as recordings  # noqa: E402

IOTRACE = os.environ["IOTRACE"]
RECORDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/recordings")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)

# Runs behind the picture's own script.  What drive() returns is left in an attribute.
PROBE = """
<script><![CDATA[
(function () {
var svg = document.documentElement;
function id(name) { return document.getElementById(name); }
function said() { return id('details').textContent; }
function is(element) { return element.style.display !== 'none'; }
function pointer(element, type, x, y) {
  element.dispatchEvent(new MouseEvent(type, { bubbles: true, clientX: x, clientY: y }));
}
function key(name, more) {
  window.dispatchEvent(new KeyboardEvent('keydown', Object.assign({ key: name }, more)));
}
function answer(text) { window.prompt = function () { return text; }; }
function drive() {
%s
}
var found;
try { found = drive(); } catch (error) { found = { error: String(error.stack) }; }
svg.setAttribute('data-found', encodeURIComponent(JSON.stringify(found)));
})();
]]></script>
"""

# What is shown: {title: [x, width]}, and the texts around it.
STATE = """
var frames = Array.prototype.slice.call(svg.querySelectorAll('.f'));
function title(g) { return g.querySelector('title').textContent; }
function state() {
  var shown = {}, hits = [];
  frames.forEach(function (g) {
    var rect = g.querySelector('rect');
    if (is(g))
      shown[title(g)] = [+rect.getAttribute('x'), +rect.getAttribute('width')];
    if (rect.getAttribute('class') === 'hit')
      hits.push(title(g));
  });
  return { shown: shown, hits: hits, matched: id('matched').textContent,
    search: id('search').textContent, reset: is(id('reset')) };
}
function frame(name) {
  return frames.filter(function (g) { return title(g).indexOf(name + ' (') === 0; })[0];
}
"""


def iotrace(*args):
    return subprocess.run([IOTRACE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True, timeout=300).stdout


def recording(name):
    return os.path.join(RECORDINGS, name + ".rec")


class InBrowser(unittest.TestCase):
    def setUp(self):
        if not CHROMIUM:
            self.skipTest("no Chromium: pages are not tested")
        self.folder = tempfile.mkdtemp(prefix="iotrace-pages-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def driven(self, text, script, shows=""):
        """Opens the page with this script as the body of drive(); returns its result. @shows: behind its address."""
        page = f"{self.folder}/page.svg"
        with open(page, "w", encoding="utf-8") as file:
            file.write(text.replace("</svg>", PROBE % script + "</svg>"))
        dom = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                              f"--user-data-dir={self.folder}/profile", "--dump-dom",
                              f"file://{page}{shows}"], stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, check=True, timeout=600).stdout
        match = re.search(r'data-found="([^"]*)"', dom)
        self.assertTrue(match, "the script did not run")
        found = json.loads(bytes(re.sub(r"%(..)", r"\\x\1", match[1]), "ascii")
                           .decode("unicode_escape").encode("latin-1").decode("utf-8"))
        self.assertNotIn("error", found if isinstance(found, dict) else {})
        return found

    def picture(self, *args):
        """The picture that iotrace writes; the last argument is an option that ends with the file's name."""
        path = f"{self.folder}/it.svg"
        iotrace(*args[:-1], args[-1] + path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"(href|src) *=|url\(|@import")  # no outside resources
        return text


class TestFlameGraph(InBrowser):
    def setUp(self):
        super().setUp()
        self.svg = self.picture("stack", "--replay", recording("stack"), "--svg=")
        # [(frames root first, bytes)]: process, stacks, disk
        self.stacks = []
        for line in iotrace("stack", "--replay", recording("stack"), "-f", "--order",
                            "disk").splitlines():
            stack, _, size = line.rpartition(" ")
            self.stacks.append(([re.sub(r"_\[k\]$", "", name) for name in stack.split(";")
                                 if name != "-"], int(size)))
        self.all = sum(size for _, size in self.stacks)

    def share(self, has):
        return sum(size for names, size in self.stacks if has(names)) / self.all

    def test_as_drawn(self):
        state, room, wide = self.driven(self.svg, STATE + """
return [state(), window.innerWidth, +svg.getAttribute('width')];""")
        all_of_it, = [place for title, place in state["shown"].items()
                      if title.startswith(f"all ({self.all:,} bytes, 100.00 %")]
        self.assertTrue(room - 17 <= wide <= room, (wide, room))  # a scroll bar
        self.assertAlmostEqual(all_of_it[1], wide - 20, delta=0.01)
        self.assertFalse(state["reset"])
        self.assertEqual((state["hits"], state["search"]), ([], "Search"))
        for disk in {names[0] for names, _ in self.stacks}:
            share = self.share(lambda names, disk=disk: names[0] == disk)
            found, = [place for title, place in state["shown"].items()
                      if title.startswith(f"{disk} (")]
            self.assertAlmostEqual(found[1], all_of_it[1] * share, delta=0.01)

    def test_hover(self):
        said = self.driven(self.svg, STATE + """
return frames.map(function (g) {
  var at, over;
  pointer(g, 'mouseover');
  over = said();
  pointer(g, 'mouseout');
  return [title(g), over, said()];
});""")
        self.assertGreater(len(said), 20)
        for title, over, out in said:
            self.assertEqual((over, out), (title, ""))

    def test_zoom(self):
        """A click makes a frame as wide as all, with what stands on it and what it stands on."""
        name = max((names for names, _ in self.stacks), key=len)[1]  # a process
        before, zoomed, out, escaped = self.driven(self.svg, STATE + f"""
var before = state(), zoomed, out;
pointer(frame('{name}'), 'click');
zoomed = state();
pointer(id('reset'), 'click');
out = state();
pointer(frame('{name}'), 'click');
key('Escape');
return [before, zoomed, out, state()];""")
        own, = [title for title in before["shown"] if title.startswith(f"{name} (")]
        x, width = before["shown"][own]
        whole = max(wide for _, wide in before["shown"].values())
        self.assertTrue(0 < width < whole)
        below = {title for title, (left, wide) in before["shown"].items()
                 if left <= x + 0.01 and left + wide >= x + width - 0.01 and wide > width + 0.01}
        inside = {title for title, (left, wide) in before["shown"].items()
                  if left >= x - 0.01 and left + wide <= x + width + 0.01}
        self.assertTrue(zoomed["reset"])
        self.assertEqual(set(zoomed["shown"]), below | inside)
        self.assertTrue(set(before["shown"]) - set(zoomed["shown"]))
        for title, (left, wide) in zoomed["shown"].items():
            was_left, was_wide = before["shown"][title]
            if title in below:
                was_left, was_wide = x, width
            self.assertAlmostEqual(wide, was_wide * whole / width, delta=0.1)
            self.assertAlmostEqual(left, 10 + (was_left - x) * whole / width, delta=0.1)
        self.assertEqual(out, before)
        self.assertEqual(escaped, before)

    def test_resize(self):
        """The graph is as wide as the window, zoomed or not; the parts of writes stay."""
        name = max((names for names, _ in self.stacks), key=len)[1]
        widths = self.driven(self.svg, STATE + f"""
function parts() {{
  return frames.map(function (g) {{
    var rect = g.querySelector('rect'), w = g.querySelector('.w');
    return [title(g), +rect.getAttribute('x'), +rect.getAttribute('width'),
      w ? +w.getAttribute('x') : 0, w ? +w.getAttribute('width') : 0];
  }});
}}
function resized(to) {{
  window.innerWidth = to;
  window.dispatchEvent(new Event('resize'));
  return [to, +svg.getAttribute('width'), state().shown, parts()];
}}
Object.defineProperty(window, 'innerHeight', {{ value: 5000 }});
Object.defineProperty(window, 'innerWidth', {{ value: 0, writable: true }});
var found = [resized(1600), resized(640), resized(1200)];
pointer(frame('{name}'), 'click');
found.push(resized(900));
return found;""")
        both = 0
        for room, wide, shown, parts in widths:
            self.assertEqual(wide, room)
            own, = [place for title, place in shown.items() if title.startswith("all (")]
            self.assertEqual(own, [10, room - 20])
            for title, x, width, part_x, part in parts:
                written = re.search(r", (\S+) %, R: (\S+) bytes, W: (\S+) bytes\)$", title)
                if not written:
                    self.assertEqual(part, 0)
                elif title in shown:
                    read, write = (int(n.replace(",", "")) for n in written.groups()[1:])
                    both += 1
                    self.assertAlmostEqual(part, width * write / (read + write), delta=0.02)
                    self.assertAlmostEqual(part_x + part, x + width, delta=0.02)
        self.assertGreater(both, 0)
        zoomed, = [place for title, place in widths[3][2].items() if title.startswith(f"{name} (")]
        self.assertEqual(zoomed, [10, 880])

    def test_search(self):
        """Matching frames are marked. Their share is by bytes, each byte counted once."""
        before, found, cleared, wrong = self.driven(self.svg, STATE + """
var before = state(), found, cleared;
answer('SYNC|writeback');
pointer(id('search'), 'click');
found = state();
pointer(id('search'), 'click');
cleared = state();
answer('(');
key('/');
return [before, found, cleared, state()];""")
        pattern = re.compile("sync|writeback", re.I)
        # the frames of a process are "comm [pid]"
        share = self.share(lambda names: any(pattern.search(name) for name in names))
        self.assertTrue(0 < share < 1)
        self.assertEqual(found["search"], "Clear search")
        self.assertAlmostEqual(float(re.fullmatch(r"Matched: ([0-9.]+) %", found["matched"])[1]),
                               100 * share, delta=0.02)
        self.assertEqual(set(found["hits"]),
                         {title for title in before["shown"]
                          if pattern.search(title[:title.rindex(" (")])})
        self.assertTrue(found["hits"])
        self.assertEqual((cleared["hits"], cleared["matched"], cleared["search"]),
                         ([], "", "Search"))
        self.assertEqual(wrong["matched"], "not a pattern: (")


    def test_icicle(self):
        """The key i turns it over: each frame is as far from its base as before."""
        before, icicle, back = self.driven(self.svg, STATE + """
function places() {
  var at = {};
  frames.forEach(function (g) { at[title(g)] = +g.querySelector('rect').getAttribute('y'); });
  return [at, id('flip').textContent, location.hash];
}
var before = places(), icicle;
key('i');
icicle = places();
pointer(id('flip'), 'click');
return [before, icicle, places()];""")
        base = max(before[0].values())
        self.assertEqual(icicle[0], {title: 60 + base - y for title, y in before[0].items()})
        self.assertGreater(len(set(before[0].values())), 10)
        self.assertEqual((before[1:], icicle[1:]), (["Icicle", ""], ["Flames", "#icicle=1"]))
        self.assertEqual(back[:2], before[:2])

    def test_address(self):
        """What is shown is in the address: a picture that is opened with it shows the same."""
        name = max((names for names, _ in self.stacks), key=len)[1]
        tell = "return [state(), frames[0].querySelector('rect').getAttribute('y'), location.hash];"
        script = STATE + tell
        shown = self.driven(self.svg, STATE + f"""
pointer(frame('{name}'), 'click');
answer('sync');
key('/');
key('i');
""" + tell)
        self.assertRegex(shown[2], "^#zoom=[0-9]+&find=sync&icicle=1$")
        self.assertTrue(shown[0]["reset"] and shown[0]["hits"])
        self.assertEqual(self.driven(self.svg, script, shown[2]), shown)
        plain = self.driven(self.svg, script)
        for wrong in ("#zoom=-1&find=%", "#zoom=100000&icicle=2", "#zoom=__proto__", "#%%%&=&"):
            self.assertEqual(self.driven(self.svg, script, wrong)[:2], plain[:2], wrong)

    def test_height(self):
        """The picture is as high as what it shows, and its base is in sight."""
        flat = min((names for names, _ in self.stacks), key=len)
        found = self.driven(self.svg, STATE + f"""
function size() {{
  var ys = frames.filter(is).map(function (g) {{ return +g.querySelector('rect').getAttribute('y'); }});
  return [+svg.getAttribute('height'), Math.min.apply(null, ys), svg.getAttribute('viewBox').split(' ').map(Number),
    id('head').getAttribute('transform')];
}}
var before = size(), base = frames[0].getBoundingClientRect();
pointer(frame('{flat[1]}'), 'click');
return [before, size(), base.bottom <= window.innerHeight + 1];""")
        (height, top, box, _), (less, highest, cropped, moved), in_sight = found
        self.assertTrue(in_sight)
        self.assertEqual((top, box[1], box[3]), (60, 0, height))
        self.assertGreater(highest, top)
        self.assertEqual(less, height - (highest - top))
        self.assertEqual((cropped[1], cropped[3]), (highest - top, less))
        self.assertEqual(moved, f"translate(0 {highest - top})")


class TestDifference(InBrowser):
    """The flame graph of compare: of A in ten seconds, of B in five."""
    A = {("sda", "fio", ("submit_bio", "kept"), ("main",)): 4_000_000,
         ("sda", "fio", ("submit_bio", "left"), ("main",)): 6_000_000}
    B = {("sda", "fio", ("submit_bio", "kept"), ("main",)): 3_000_000,
         ("sdb", "fio", ("submit_bio", "came"), ("main",)): 1_000_000}

    def test_frames(self):
        """What only A has, or only B, is there, is found, and is zoomed; each frame says its numbers."""
        paths = [os.path.join(self.folder, name) for name in ("a.rec", "b.rec")]
        for path, rows, seconds in zip(paths, (self.A, self.B), (10, 5)):
            with open(path, "wb") as file:
                file.write(noise.recording_of_stack([[(*names, {"write_bytes": n}) for names, n in rows.items()]],
                                                    seconds=seconds))
        svg = self.picture("compare", *paths, "--svg=")
        before, gone, zoomed, out, hovered, fills = self.driven(svg, STATE + """
var before = state(), gone, zoomed, out, hovered = [];
answer(', gone$');
key('/');
gone = state();
key('/');
pointer(frame('left, gone'), 'click');
zoomed = state();
pointer(id('reset'), 'click');
out = state();
frames.forEach(function (g) {
  pointer(g, 'mouseover');
  hovered.push([title(g), said()]);
});
return [before, gone, zoomed, out, hovered, frames.map(function (g) {
  return [title(g).split(' (')[0], getComputedStyle(g.querySelector('rect')).fill,
    g.querySelector('text') ? g.querySelector('text').textContent : ''];
})];""")
        shares = {title.split(" (")[0]: width for title, (_, width) in before["shown"].items()}
        whole = shares["all, -20.0 %"]  # 1,000,000 of A each second, 800,000 of B
        for name, rate in (("kept, +50.0 %", 600_000), ("left, gone", 600_000), ("came, new", 200_000)):
            self.assertAlmostEqual(shares[name], whole * rate / 1_400_000, delta=0.01, msg=name)
        self.assertEqual({title.split(" (")[0] for title in gone["hits"]}, {"left, gone", "submit_bio, gone"})
        self.assertEqual(gone["matched"], f"Matched: {100 * 6 / 14:.2f} %")
        self.assertEqual({title.split(" (")[0] for title in zoomed["shown"]},
                         {"all, -20.0 %", "sda, -40.0 %", "fio, -40.0 %", "main, -40.0 %", "left, gone", "submit_bio, gone"})
        self.assertEqual(out["shown"], before["shown"])
        self.assertEqual([title for title, _ in hovered], [said for _, said in hovered])
        self.assertIn("left, gone (586 KiB/s -> 0.00 B/s; 6,000,000 bytes -> 0 bytes)", dict(hovered))
        colours = {name: list(map(int, re.findall(r"\d+", fill))) for name, fill, _ in fills}
        for name, strongest in (("came, new", 0), ("kept, +50.0 %", 0), ("left, gone", 2), ("sda, -40.0 %", 2)):
            self.assertEqual(max(range(3), key=colours[name].__getitem__), strongest, (name, colours[name]))
        self.assertEqual({name: text for name, _, text in fills if name.startswith(("kept", "left"))},
                         {"kept, +50.0 %": "kept, +50.0 %", "left, gone": "left, gone"})


class TestHeatMap(InBrowser):
    def hovered(self, svg):
        """The text shown for the middle of each cell: [[per row, from the lowest] per column]."""
        return self.driven(svg, """
var rows = +svg.getAttribute('data-rows');
return Array.prototype.map.call(svg.querySelectorAll('.c'), function (rect) {
  var box = rect.getBoundingClientRect(), texts = [];
  for (var row = 0; row < rows; row++) {
    pointer(rect, 'mousemove', box.left + box.width / 2,
            box.bottom - (row + 0.5) * box.height / rows);
    texts.push(said());
  }
  pointer(rect, 'mouseout');
  texts.push(said());
  return texts;
});""")

    def assert_hover(self, name, *args):
        svg = self.picture("breakdown", "--replay", recording(name), *args, "--heatmap=")
        intervals = [json.loads(line)["rows"] for line in
                     iotrace("breakdown", "--replay", recording(name), *args,
                             "--json").splitlines()[1:]]
        total = 0
        for column in self.hovered(svg):
            self.assertEqual(column.pop(), "")
            counts = [int(re.match(r"\S+ to \S+, \S+ to \S+: (\d+) \| (\d+) in all", text)[1])
                      for text in column]
            in_all = {re.search(r"\| (\d+) in all", text)[1] for text in column}
            self.assertEqual({str(sum(counts))}, in_all)
            total += sum(counts)
        self.assertGreater(total, 0)
        self.assertEqual(total, sum(row["count"] for rows in intervals for row in rows))

    def long(self, name, count):
        """A recording like @name with @count intervals, of a second each."""
        path = f"{self.folder}/long.rec"
        with open(recording(name), "rb") as file, open(path, "wb") as made:
            made.write(recordings.stretched(file.read(), count))
        return path

    def driven_maps(self, name, *args, body, shows=""):
        """The picture of eleven intervals, and what drive() finds there."""
        svg = self.picture("breakdown", "--replay", self.long(name, 11), *args, "--heatmap=")
        return svg, self.driven(svg, """
var maps = Array.prototype.slice.call(svg.querySelectorAll('.map'));
function columns(map) { return Array.prototype.slice.call(map.querySelectorAll('.c')); }
function middle(rect) {
  var box = rect.getBoundingClientRect();
  return box.left + box.width / 2;
}
function mouse(map, i, type) {
  var rect = columns(maps[map])[i], box = rect.getBoundingClientRect();
  pointer(rect, type, middle(rect), box.top + 1);
}
function state() {
  return { reset: is(id('reset')), search: id('search').textContent,
    matched: id('matched').textContent.trim(), maps: maps.map(function (map) {
      var room = map.querySelector('svg'), left = +room.getAttribute('x');
      var width = +room.getAttribute('width'), texts = map.querySelectorAll('text');
      var root = svg.getBoundingClientRect(), shown = [], missed = [];
      columns(map).forEach(function (rect, i) {
        var x = middle(rect) - root.left;
        if (x > left && x < left + width)
          shown.push(i);
        if (rect.classList.contains('miss'))
          missed.push(i);
      });
      return { shown: shown, missed: missed, from: texts[1].textContent,
        to: texts[2].textContent, selected: map.querySelectorAll('.selected').length,
        n: columns(map).length };
    }) };
}
""" + body, shows)

    @staticmethod
    def columns(svg):
        """[[(title, lowest row, counts)] per map]."""
        return [[(title, int(row), [int(count or 0) for count in counts.split(",")])
                 for row, counts, title in
                 re.findall(r'data-r="(\d+)" data-c="([0-9,]*)"><title>([^<]*)', part)]
                for part in svg.split('<g class="map">')[1:]]

    def assert_zoom(self, name, *args):
        svg, found = self.driven_maps(name, *args, body="""
var all = [state()], last = maps.length - 1, n = columns(maps[0]).length;
function drag(from, to) {
  mouse(0, from, 'mousedown');
  mouse(0, to, 'mousemove');
  all.push(said(), state());
  mouse(0, to, 'mouseup');
  all.push(state());
}
function click(map, i) {
  mouse(map, i, 'mousedown');
  mouse(map, i, 'mouseup');
  all.push(state());
}
drag(1, 2);
pointer(id('reset'), 'click');
all.push(state());
drag(n - 1, n - 2);
key('Escape');
all.push(state());
click(last, 0);
click(last, 0);
key('Escape');
click(last, n - 1);
key('Escape');
mouse(0, 1, 'mousedown');
mouse(0, 2, 'mousemove');
key('Escape');
mouse(0, 2, 'mouseup');
all.push(state());
return all;""")
        maps = self.columns(svg)
        n = len(maps[0])
        self.assertEqual(n, 11)

        def assert_shown(state, first, last):
            self.assertEqual(state["reset"], last - first + 1 < n)
            self.assertEqual(len(state["maps"]), len(maps))
            for shown in state["maps"]:
                self.assertEqual(shown["shown"], list(range(first, last + 1)))
                self.assertEqual(shown["from"], maps[0][first][0].split(" to ")[0])
                self.assertEqual(shown["to"], maps[0][last][0].split(", ")[0].split(" to ")[1])
                self.assertEqual(shown["selected"], 0)

        def assert_selected(text, state, first, last):
            total = sum(sum(counts) for _, _, counts in maps[0][first:last + 1])
            self.assertEqual(text, f"{maps[0][first][0].split(' to ')[0]} to "
                             f"{maps[0][last][0].split(', ')[0].split(' to ')[1]}: {total}")
            self.assertEqual([shown["selected"] for shown in state["maps"]],
                             [last - first + 1] * len(maps))

        before, said, selected, zoomed, out, said2, selected2, backwards, escaped, *rest = found
        assert_shown(before, 0, n - 1)
        assert_selected(said, selected, 1, 2)
        assert_shown(zoomed, 1, 2)
        self.assertEqual(out, before)
        assert_selected(said2, selected2, n - 2, n - 1)
        assert_shown(backwards, n - 2, n - 1)
        self.assertEqual(escaped, before)
        half = (n + 1) // 2
        left, quarter, right, cancelled = rest
        assert_shown(left, 0, half - 1)
        assert_shown(quarter, 0, (half + 1) // 2 - 1)
        assert_shown(right, n - half, n - 1)
        self.assertEqual(cancelled, before)

    def test_zoom(self):
        self.assert_zoom("breakdown-blk")

    def test_address(self):
        """A range is in the address, and as --begin and --end next to it."""
        body = "return [state(), id('reset').textContent, location.hash];"
        svg, shown = self.driven_maps("breakdown-blk", body="""
mouse(0, 1, 'mousedown');
mouse(0, 3, 'mousemove');
mouse(0, 3, 'mouseup');
""" + body)
        first, last = self.columns(svg)[0][1][0], self.columns(svg)[0][3][0]
        self.assertEqual(shown[2], "#zoom=1-3")
        self.assertIn(f"--begin {first.split(' to ')[0]} --end {last.split(', ')[0].split(' to ')[1]}", shown[1])
        again = self.driven_maps("breakdown-blk", body=body, shows="#zoom=1-3")[1]
        self.assertEqual(again, shown)
        for wrong in ("#zoom=3-1", "#zoom=0-99", "#zoom=x"):
            self.assertFalse(self.driven_maps("breakdown-blk", body=body, shows=wrong)[1][0]["reset"])

    def test_zoom_maps(self):
        """The range of time selected in one map is shown in all maps."""
        self.assert_zoom("breakdown-blk-by", "-r", "8")

    def test_zoomed_cells(self):
        """A cell is found, and lies, below the pointer also when it is zoomed."""
        _, (before, after) = self.driven_maps("breakdown-blk", body="""
var rows = +svg.getAttribute('data-rows');
function said_of(i) {
  var rect = columns(maps[0])[i], box = rect.getBoundingClientRect(), texts = [];
  for (var row = 0; row < rows; row++) {
    pointer(rect, 'mousemove', middle(rect), box.bottom - (row + 0.5) * box.height / rows);
    texts.push(said());
  }
  return [texts, box.top, box.bottom];
}
var before = said_of(1);
mouse(0, 1, 'mousedown');
mouse(0, 2, 'mousemove');
mouse(0, 2, 'mouseup');
return [before, said_of(1)];""")
        self.assertEqual(before, after)
        self.assertGreater(len(set(before[0])), 3)

    def test_search(self):
        """A time of day finds its columns; what does not match is faded."""
        svg, (before, found, cleared, wrong) = self.driven_maps("breakdown-blk", body="""
var before = state(), found, cleared;
answer(columns(maps[0])[1].querySelector('title').textContent.split(' to ')[0] + ' to');
pointer(id('search'), 'click');
found = state();
pointer(id('search'), 'click');
cleared = state();
answer('(');
key('f', { ctrlKey: true });
return [before, found, cleared, state()];""")
        maps = self.columns(svg)
        begins = maps[0][1][0].split(" to ")[0] + " to"
        hits = [i for i, column in enumerate(maps[0]) if column[0].startswith(begins)]
        self.assertTrue(0 < len(hits) < len(maps[0]))
        count = sum(sum(columns[i][2]) for columns in maps for i in hits)
        total = sum(sum(column[2]) for columns in maps for column in columns)
        self.assertEqual(found["search"], "Clear search")
        self.assertEqual(found["matched"], f"Matched: {count} of {total} ("
                         f"{100 * count / total:.2f} %)")
        for shown in found["maps"]:
            self.assertEqual(shown["missed"], [i for i in range(len(maps[0])) if i not in hits])
        self.assertEqual(found["maps"][0]["shown"], before["maps"][0]["shown"])
        self.assertEqual(cleared, before)
        self.assertEqual(wrong, {**before, "matched": "not a pattern: ("})

    def test_search_name(self):
        svg, (found,) = self.driven_maps("breakdown-blk-by", "-r", "8", body="""
answer('^' + maps[1].querySelector('text').textContent + ' ');
key('/');
return [state()];""")
        maps = self.columns(svg)
        self.assertGreater(len(maps), 1)
        count = sum(sum(column[2]) for column in maps[1])
        total = sum(sum(column[2]) for columns in maps for column in columns)
        self.assertTrue(0 < count < total)
        self.assertTrue(found["matched"].startswith(f"Matched: {count} of {total} ("))
        self.assertEqual([shown["missed"] for shown in found["maps"]],
                         [[] if i == 1 else list(range(len(columns)))
                          for i, columns in enumerate(maps)])

    def test_search_latency(self):
        """A search for a least latency: counts and columns agree with the text shown for the cells."""
        self.assert_search("breakdown-blk", "s", "longer")

    def test_search_number(self):
        """The same in a map of numbers that are no times."""
        self.assert_search("breakdown-size", "G", "more")

    def assert_search(self, name, unit, than):
        svg, found = self.driven_maps(name, body="""
var rows = +svg.getAttribute('data-rows'), all = [];
var rect = columns(maps[0])[0], box = rect.getBoundingClientRect();
for (var row = 0; row < rows; row++) {
  pointer(rect, 'mousemove', middle(rect), box.bottom - (row + 0.5) * box.height / rows);
  var least = /, (\\S+) to /.exec(said())[1];
  answer(' > ' + least);
  key('/');
  all.push([least, state()]);
  key('/');
}
answer('>=1000%s');
key('/');
all.push(['', state()]);
return all;""" % unit)
        maps = self.columns(svg)
        total = sum(sum(counts) for columns in maps for _, _, counts in columns)
        seen = set()
        *found, (_, nothing) = found
        for row, (least, state) in enumerate(found):
            above = [[sum(counts[max(row - lowest, 0):]) for _, lowest, counts in columns] for columns in maps]
            count = sum(map(sum, above))
            self.assertEqual(state["matched"], f"Matched: {count} of {total} ("
                             f"{100 * count / total:.2f} %), {least} or {than}")
            self.assertEqual([shown["missed"] for shown in state["maps"]],
                             [[i for i, count in enumerate(counts) if not count] for counts in above])
            seen.add(count)
        self.assertGreater(len(seen), 3)
        self.assertTrue(nothing["matched"].startswith(f"Matched: 0 of {total} (0.00 %)"))
        self.assertEqual(len(nothing["maps"][0]["missed"]), len(maps[0]))

    def test_many(self):
        """10,000 intervals make a small picture without a loss, that is zoomed down to a column."""
        for name, args in (("breakdown-blk", ()), ("breakdown-blk-by", ("-r", "8"))):
            path = self.long(name, 10000)
            svg = self.picture("breakdown", "--replay", path, *args, "--heatmap=")
            self.assertLess(len(svg.encode()), 300000)
            maps = self.columns(svg)
            rows = [row for line in iotrace("breakdown", "--replay", path, *args,
                                            "--json").splitlines()[1:]
                    for row in json.loads(line)["rows"]]
            self.assertEqual(sum(sum(column[2]) for columns in maps for column in columns),
                             sum(row["count"] for row in rows))
            shown = self.driven(svg, """
var picture = svg.querySelector('.map svg'), rect = picture.querySelectorAll('.c')[3];
for (var i = 0; i < 12; i++)
  ['mousedown', 'mouseup'].forEach(function (type) { pointer(rect, type); });
var box = rect.getBoundingClientRect();
return [box.width, +picture.getAttribute('width'),
  picture.parentNode.querySelectorAll('text')[1].textContent];""")
            self.assertAlmostEqual(shown[0], shown[1], delta=0.2)  # pixels, rounded
            self.assertEqual(shown[2], maps[0][3][0].split(" to ")[0])

    def test_hover(self):
        self.assert_hover("breakdown-blk")

    def test_maps(self):
        self.assert_hover("breakdown-blk-by", "-r", "8")

    def test_ranges(self):
        """The latency ranges shown adjoin each other, and have the limits of JSON's slots."""
        svg = self.picture("breakdown", "--replay", recording("breakdown-blk"), "--heatmap=")
        units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        for column in self.hovered(svg):
            ranges = []
            for text in column[:-1]:
                found = re.match(r"\S+ to \S+, ([0-9.]+)([a-z]+) to ([0-9.]+)([a-z]+): ", text)
                ranges.append((float(found[1]) * units[found[2]],
                               float(found[3]) * units[found[4]]))
            self.assertEqual(ranges, sorted(ranges))
            for (_, end), (start, _) in zip(ranges, ranges[1:]):
                self.assertEqual(end, start)

    def test_long_times(self):
        """The time of an I/O that took an hour is shown in seconds."""
        path = f"{self.folder}/long.rec"
        with open(recording("breakdown-blk"), "rb") as file, open(path, "wb") as made:
            data = file.read()
            columns = recordings.read(recording("breakdown-blk"))["intervals"][0]["rows"]["rows"][0]
            made.write(recordings.with_rows(data, [[{**columns, "count": 3,
                                                     "slots": {1000000: 2, 2**42: 1}}]]))
        column, = self.hovered(self.picture("breakdown", "--replay", path, "--heatmap="))
        self.assertRegex(column[-2], r", \d{4}s to \d{4}s: 1 \|")
        for text in column[:-1]:
            self.assertRegex(text, r", [0-9.]+[num]?s to [0-9.]+[num]?s: \d+ \|")


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    if not CHROMIUM:
        sys.exit(77)
    sys.exit(not program.result.wasSuccessful())
