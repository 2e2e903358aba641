// A client of the wire format that knows the specification, docs/wire.md, and nothing else.
// It checks the golden vectors of a folder: node tests/client.mjs tests/vectors
// One line a file; at the first mismatch one line on the error stream, and exit code 1.
import { createHash, createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

const [F, ONE, UNIT] = [2n ** 61n - 1n, 2n ** 64n, 2n ** 1100n];
const word = (n) => BigInt.asUintN(64, n);
const rotl = (n, by) => word((n << by) | (n >> (64n - by)));
const range = (length) => Array.from({ length }, (_, i) => i);
const bit = (i) => 1n << BigInt(i);
const digits = (n) => (n > 0n ? n.toString(2).length : 0);
const size = (below) => Math.ceil(digits(BigInt(below) - 1n) / 8);
const hex = (text) => Buffer.from(text, "hex");
const integer = (bytes) => BigInt(`0x0${Buffer.from(bytes).reverse().toString("hex")}`);
const toBytes = (n, length) => hex(BigInt(n).toString(16).padStart(2 * length, "0")).reverse();
const padded = (bytes, length) => Buffer.concat([bytes, Buffer.alloc(length)], length);
const words = (bytes) => range(bytes.length / 8).map((i) => bytes.readBigUInt64LE(8 * i));
const refuse = (why) => { throw new Error(why); };
// BLAKE2b: RFC 7693, with the personalisation of section 3
const nibbles = (text) => Array.from(text, (digit) => parseInt(digit, 16));
const IV = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
const MIXED = nibbles("048c159d26ae37bf05af16bc278d349e");
const SIGMA = nibbles("0123456789abcdefea489fd61c02b753b8c052fdae3671947931dcbe265a40f8905724af" +
  "e1bc683d2c6a0b834d75fe19c51fed4a0763928bdb7ec13950f4862a6fe9b308c2d714a5a2847615fb9e3cd0");
function blake2b(message, length, person, key = hex("")) {
  const data = Buffer.concat([padded(key, key.length && 128), message]);
  const head = padded(Buffer.of(length, key.length, 1, 1), 48);
  let h = words(padded(Buffer.concat([head, Buffer.from(person)]), 64)).map((n, i) => n ^ IV[i]);
  for (let at = 0; at === 0 || at < data.length; at += 128) {
    const [m, v] = [words(padded(data.subarray(at), 128)), [...h, ...IV]];
    v[12] ^= BigInt(Math.min(at + 128, data.length));
    if (at + 128 >= data.length) v[14] = word(~v[14]);
    [...SIGMA, ...SIGMA.slice(0, 32)].forEach((from, i) => {
      const [a, b, c, d] = MIXED.slice(4 * ((i >> 1) % 8));
      v[a] = word(v[a] + v[b] + m[from]);
      v[d] = rotl(v[d] ^ v[a], i % 2 ? 48n : 32n);
      v[c] = word(v[c] + v[d]);
      v[b] = rotl(v[b] ^ v[c], i % 2 ? 1n : 40n);
    });
    h = h.map((n, i) => n ^ v[i] ^ v[i + 8]);
  }
  return Buffer.concat(h.map((n) => toBytes(n, 8)), length);
}
// Sections 1 to 3: value, point, column
const valueBytes = (value) => Buffer.from(/\p{Cs}/u.test(value) ? refuse("no UTF-8") : value);
function murmur(bytes) {
  const mix1 = (k) => word(rotl(word(k * 0x87c37b91114253d5n), 31n) * 0x4cf5ad432745937fn);
  const mix2 = (k) => word(rotl(word(k * 0x4cf5ad432745937fn), 33n) * 0x87c37b91114253d5n);
  const fold = (k, by) => word((k ^ (k >> 33n)) * by);
  const final = (k) => fold(fold(fold(k, 0xff51afd7ed558ccdn), 0xc4ceb9fe1a85ec53n), 1n);
  const [blocks, length] = [bytes.length >> 4, BigInt(bytes.length)];
  const k = words(padded(bytes, 16 * blocks + 16));
  let [h1, h2] = [0n, 0n];
  for (let i = 0; i < blocks; i += 1) {
    h1 = word((rotl(h1 ^ mix1(k[2 * i]), 27n) + h2) * 5n + 0x52dce729n);
    h2 = word((rotl(h2 ^ mix2(k[2 * i + 1]), 31n) + h1) * 5n + 0x38495ab5n);
  }
  h2 ^= mix2(k[2 * blocks + 1]) ^ length;
  h1 = word((h1 ^ mix1(k[2 * blocks]) ^ length) + h2);
  return word(final(h1) + final(word(h2 + h1)));
}
const point = (bytes) => murmur(bytes) % F;
const rowDigest = (seed, row) => blake2b(toBytes(row, 4), 24, "ldp rows v1", hex(seed));
function sketchColumn({ seed, width }, bytes, row) {
  const [[a, b, c], x] = [words(rowDigest(seed, row)).map((n) => n % F), point(bytes)];
  return Number(((((a * x * x + b * x + c) % F) >> 29n) * BigInt(width)) >> 32n);
}
const prefixed = (text) => [toBytes(valueBytes(text).length, 4), valueBytes(text)];
const joined = (...texts) => Buffer.concat(texts.flatMap(prefixed));
const derivedSeed = (names) => blake2b(joined(...names), 16, "ldp seed v1");
// Section 4: [touched, untouched]; exact(x) and epsilon are whole numbers of 1 / UNIT
const exact = (x) => (Number.isInteger(x) ? BigInt(x) * UNIT : exact(2 * x) / 2n);
const exp = (e, term = UNIT, n = 1n) => term && term + exp(e, (term * e) / (UNIT * n), n + 1n);
function keep(epsilon, others, own = 1n) {
  const [truth, all] = [exp(epsilon) * own, exp(epsilon) * own + others * UNIT];
  return (ONE * truth * 10n ** 30n - all) / (all * 10n ** 30n);
}
function answers(epsilon, others, own = 1) { // thresholds of one of the own, and of one other
  const told = keep(epsilon, BigInt(others), BigInt(own));
  return [told / BigInt(own), (ONE - told) / BigInt(others), told];
}
const symmetric = (epsilon) => answers(epsilon / 2n, 1);
const optimized = (epsilon) => [ONE / 2n, answers(epsilon, 1)[1]];
const asDouble = (n, surplus = BigInt(digits(n) - 53)) => (n >> surplus) << surplus; // from below
function coin(alpha, beta) {
  const [truth, lie, all] = [alpha * UNIT, (UNIT - alpha) * beta, UNIT * UNIT];
  return [(ONE * (truth + lie)) / all, (ONE * lie + all - 1n) / all];
}
// Section 5: random bits
function randomBits(label, blockLength, seed) {
  const block = (i) => createHash("shake256", { outputLength: blockLength })
    .update(label).update(toBytes(i, 8)).update(seed).digest();
  let [left, blocks] = [hex(""), 0];
  return (n, length = Math.ceil(n / 8)) => {
    for (; left.length < length; blocks += 1) left = Buffer.concat([left, block(blocks)]);
    const taken = integer(left.subarray(0, length));
    left = left.subarray(length);
    return BigInt.asUintN(n, taken);
  };
}
const hmac = (key, ...texts) => createHmac("sha256", key).update(Buffer.concat(texts)).digest();
const seededBits = (seed) => randomBits("ldp seeded bits v1", 4096, hex(seed));
const keyedBits = (...keyed) => randomBits("ldp keyed bits v1", 256, hmac(...keyed));
const uniformBelow = (draw, bound, n = draw(digits(BigInt(bound) - 1n))) =>
  n < bound ? Number(n) : uniformBelow(draw, bound);
function bernoulli(draw, T, lanes, chosen = 0n, C = 0n) {
  const every = bit(lanes) - 1n;
  const pick = (t, c) => (t ? every & ~chosen : 0n) | (c ? chosen : 0n);
  let below = pick(T === ONE, C === ONE);
  let undecided = every & ~below;
  for (let at = 63; at >= 0 && undecided && (T | C) & (bit(at + 1) - 1n); at -= 1) {
    const [drawn, ones] = [draw(lanes), pick(T & bit(at), C & bit(at))];
    below |= undecided & ones & ~drawn;
    undecided &= ~(drawn ^ ones);
  }
  return below;
}
// Section 6: kinds of payload number n; a payload is drawn from a part, see below
const INDEX = { // the columns touched are in ascending order, but for pgr with its own `outside`
  limit: (columns) => columns, vote: (n, column) => Number(n === column),
  payload: ({ told, columns, outside }, draw, own) =>
    bernoulli(draw, told, 1) ? own[uniformBelow(draw, own.length)]
      : (own.outside ?? ((o) => own.reduce((n, t) => n + Number(n >= t), o)))(
        uniformBelow(draw, columns - own.length)),
};
const SUBSET = {
  limit: bit, vote: (n, column) => Number((n >> column) & 1n),
  payload({ told, columns, size: w }, draw, own) { // own in ascending order
    const even = (ONE * BigInt(w)) / BigInt(columns);
    const size = Number(bernoulli(draw, told, 1)) * sizeOf(draw, columns, own.length, w);
    const inside = own.length > 1 ? setOf(draw, own.length, size) : BigInt(size);
    const others = setOf(draw, columns - own.length, w - size, even);
    return own.reduce((set, t, i) => {
      const low = set & (bit(t) - 1n);
      return low | (((inside >> BigInt(i)) & 1n) << BigInt(t)) | ((set ^ low) << 1n);
    }, others);
  },
};
function setOf(draw, columns, size, coin = 0n) { // a uniform set of so many columns
  let set = bernoulli(draw, coin, columns);
  let missing = size - ones(set);
  while (missing) {
    const column = bit(uniformBelow(draw, columns));
    if (Boolean(set & column) !== missing < 0) continue;
    set ^= column;
    missing -= Math.sign(missing);
  }
  return set;
}
const binomial = (n, k) => (k < 0 || k > n ? 0n
  : range(k).reduce((c, i) => (c * BigInt(n - i)) / BigInt(i + 1), 1n));
function sizeOf(draw, columns, own, w) { // how many of the own are in a set that has one or more
  if (own < 2) return 1;
  let n = BigInt(uniformBelow(draw, binomial(columns, w) - binomial(columns - own, w)));
  for (let size = 1; ; size += 1) {
    const sets = binomial(own, size) * binomial(columns - own, w - size);
    if (n < sets) return size;
    n -= sets;
  }
}
const ones = (n) => Array.from(n.toString(2)).filter((digit) => digit === "1").length;
const bits = (columns) => columns.reduce((sum, column) => sum | bit(column), 0n);
const BITS = {
  limit: bit, vote: (n, column) => Number((n >> column) & 1n),
  payload: ({ touched, untouched, columns }, draw, truth) =>
    bernoulli(draw, untouched, columns, bits(truth), touched),
};
const parity = (n) => (n ? (n & 1n) ^ parity(n >> 1n) : 0n);
const SIGN = {
  limit: (columns) => 2 * columns,
  vote: (n, column) => (n >> 1n === column ? 1 - 2 * Number(n & 1n) : 0),
  payload: ({ touched, columns }, draw, [t], column = BigInt(uniformBelow(draw, columns))) =>
    2n * column + (parity(column & BigInt(t)) ^ 1n ^ bernoulli(draw, touched, 1)),
};
// A part of a report; truth(value, row) lists the columns touched. The bytes hold three numbers:
// block, row in the block and payload. Outside sfp there is one block, whose number has no bytes.
function part(kind, rows, columns, [touched, untouched, told = touched], truth, blocks = 1) {
  if (untouched <= 0n || touched <= untouched || touched >= ONE) refuse("thresholds");
  const limits = [blocks, rows / blocks, kind.limit(columns)].map(BigInt);
  return { ...kind, rows, columns, touched, untouched, told, truth, limits };
}
const place = (list, value) => (list.includes(value) ? list.indexOf(value) : refuse("value"));
function places(p, value) { // of a category, or of each answer of a set
  if (Boolean(p.at_most) !== Array.isArray(value) || value.length > p.at_most) refuse("value");
  return [value].flat().map((answer) => place(p.categories, answer)).sort((a, b) => a - b);
}
const choice = (kind, p, thresholds) =>
  part(kind, 1, p.categories.length, thresholds, (value) => places(p, value));
const sketch = (kind, p, thresholds) => part(kind, p.rows, p.width, thresholds,
  (value, row) => [sketchColumn(p, valueBytes(value), row)]);
// RAPPOR, but for the schemes le, be16 and city64, of which there are no vectors
const SCHEMES = {
  polynomial: ({ seed, bits: width, hashes }, value, row, i) =>
    sketchColumn({ seed, width }, valueBytes(value), row * hashes + i),
  "rappor-md5-1byte": (p, value, row, i) => createHash("md5")
    .update(toBytes(row, 4).reverse()).update(valueBytes(value)).digest()[i] % p.bits,
};
function rappor(p) {
  const [lie, low, high] = [p.f / 2, p.p, p.q].map((x) => (ONE * exact(x)) / UNIT);
  const mixed = (mostly, seldom) => (mostly * (ONE - lie) + seldom * lie) / ONE;
  const truth = (value, row) => (p.scheme === "identity" ? places(p, value)
    : range(p.hashes).map((i) => SCHEMES[p.scheme](p, value, row, i)));
  const own = part(BITS, p.cohorts, p.bits, [mixed(high, low), mixed(low, high)], truth);
  return bitsTwice(own, ONE - lie, low, high);
}
const bitsTwice = (own, told, low, high, n = own.columns) => ({ ...own,
  permanent: (draw, filter) => bernoulli(draw, ONE - told, n, filter, told),
  payload: (mine, draw, columns) =>
    bernoulli(draw, low, n, mine.permanent(draw, bits(columns)), high) });
function secondStep(epsilon, told, others) { // how far what was told is told again; both steps
  const [all, tens, unit] = [exp(epsilon), 10n ** 50n, ONE * others];
  const whole = all + others * UNIT;
  const limit = (all * tens - whole) * unit - (ONE - told) * whole * tens;
  const again = (ONE * limit) / ((told * (others + 1n) - ONE) * whole * tens);
  const truth = told * again * others + (ONE - told) * (ONE - again);
  return [again, [truth / unit, (ONE * unit - truth) / (unit * others)]];
}
function memoised(p, epsilon, columns, made) { // a column told, and told again about the first one
  const others = BigInt(columns - 1);
  const told = keep(exact(p.lifetime_epsilon), others);
  const [again, thresholds] = secondStep(epsilon, told, others);
  const own = made(thresholds);
  return [{ ...own, permanent: (draw, t) => INDEX.payload({ told, columns }, draw, [Number(t)]),
    payload: (part, draw, [t]) =>
      INDEX.payload({ told: again, columns }, draw, [part.permanent(draw, t)]) }];
}
function memoising(mechanism, { secret_hex, metric, epoch }) { // the permanent response is "keyed"
  const [[own], given, id, kept] = [mechanism.parts, hex(secret_hex), mechanism.head.slice(2), {}];
  const secret = epoch === null ? given : hmac(given, joined("epoch", epoch));
  const keyed = (what, ...more) => keyedBits(secret, joined(what, metric), id, ...more);
  const noise = (filter) => keyed("permanent", toBytes(filter, size(own.limits[2])));
  const permanent = (_, filter) => (kept[epoch ?? filter] ??= own.permanent(noise(filter), filter));
  const row = uniformBelow(keyed("cohort"), own.rows);
  return { ...mechanism, parts: [{ ...own, row, permanent }] };
}
// Words, and the table of mechanisms: id, and parts from the parameters and the exact epsilon
function filled(p, value) {
  const [letters, alphabet] = [Array.from(value), Array.from(p.alphabet)];
  if (letters.some((c) => !alphabet.includes(c)) || letters.length > p.length) refuse("value");
  return [...letters, ...Array(p.length - letters.length).fill("\0")];
}
const fragmentAt = (p, value, position) => valueBytes(filled(p, value)
  .slice(position * p.fragment, (position + 1) * p.fragment).join(""));
function fragments(p, epsilon, blocks) {
  return part(BITS, p.rows, p.width, symmetric(epsilon), (value, row) => {
    const word = valueBytes(filled(p, value).join(""));
    const tag = integer(blake2b(word, 8, "ldp tag v1", hex(p.seed)));
    const fragment = fragmentAt(p, value, Math.floor((row * p.length) / p.fragment / p.rows));
    const tagged = Buffer.concat([toBytes(BigInt.asUintN(p.tag_bits, tag), 2), fragment]);
    return [sketchColumn(p, tagged, row)];
  }, blocks);
}
function prefix(p, epsilon) {
  const size = p.length / p.groups;
  return part(INDEX, p.rows, p.buckets, answers(epsilon, p.buckets - 1), (value, row) => {
    const end = size * (1 + Math.floor((row * p.groups) / p.rows));
    const beginning = valueBytes(filled(p, value).slice(0, end).join(""));
    return [sketchColumn({ ...p, width: p.buckets }, beginning, row)];
  });
}
function sfp(p, epsilon) {
  const [blocks, part] = [p.length / p.fragment, exact(p.fragment_epsilon)];
  const seed = derivedSeed(["sfp fragments", p.seed]).toString("hex");
  const own = { ...p, rows: p.fragment_rows * blocks, width: p.fragment_width, seed };
  return [fragments(own, part, blocks), sketch(BITS, p, symmetric(asDouble(epsilon - part)))];
}
const bloom = (p, bytes, row) => range(p.hashes)
  .map((i) => sketchColumn({ seed: p.seed, width: p.bits }, bytes, row * p.hashes + i));
const truly = (epsilon, [told] = symmetric(epsilon)) => [told & ~2047n, ONE - (told & ~2047n)];
const pairsOf = (n) => range(n).flatMap((i) => range(n - i - 1).map((j) => [i, i + j + 1]));
function filters(p, epsilon, blocks) {
  const pairs = pairsOf(p.length / p.fragment);
  const truth = (value, row) => pairs[Math.floor(row / p.cohorts)].flatMap((position, half) =>
    bloom(p, fragmentAt(p, value, position), row % p.cohorts).map((i) => half * p.bits + i));
  const thresholds = truly(epsilon / BigInt(2 * p.hashes));
  return part(BITS, p.cohorts * pairs.length, 2 * p.bits, thresholds, truth, blocks);
}
function ngrams(p, epsilon) {
  const [blocks, own] = [pairsOf(p.length / p.fragment).length, exact(p.fragment_epsilon)];
  const seed = derivedSeed(["rappor ngrams", p.seed]).toString("hex");
  const thresholds = truly(asDouble(epsilon - own) / BigInt(p.hashes));
  return [filters({ ...p, seed }, own, blocks), part(BITS, p.cohorts, p.bits, thresholds,
    (value, row) => bloom(p, valueBytes(value), row))];
}
// Numbers: a place between bounds is a fraction [n, d]; it is rounded to a step at random
const double64 = (x, d = 1n) => (Number.isInteger(x) ? [BigInt(x), d] : double64(2 * x, 2n * d));
const minus = ([a, b], [c, d]) => [a * d - c * b, b * d];
const DECIMAL = /^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$/;
const number = (text) => (DECIMAL.test(text) ? Number(text) : refuse("value"));
function fraction(text, [low, high], outside) {
  const x = number(text);
  if ((x < low || x > high) && outside !== "clip") refuse("value");
  const from = double64(low);
  const inside = Math.min(Math.max(x, low), high);
  const [[a, b], [c, d]] = [inside, high].map((end) => minus(double64(end), from));
  return [a * d, b * c];
}
const stepped = ([n, d], draw, at = (n * ONE) / d) =>
  Number(at / ONE + bernoulli(draw, at % ONE, 1));
function numeric(p, epsilon, bins, width) {
  const steps = BigInt(bins - width);
  const truth = (value, row, draw) => {
    const [n, d] = fraction(value, p.bounds, p.outside);
    const step = stepped([n * steps, d], draw);
    return range(width).map((i) => step + i);
  };
  return part(INDEX, 1, bins, answers(epsilon, bins - width, width), truth);
}
function windowed(p, epsilon) { // the width is nearest to bins / (e**(epsilon / 2) + 1)
  const [all, wide] = [exp(epsilon / 2n) + UNIT, 2n * BigInt(p.bins) * UNIT];
  return numeric(p, epsilon, p.bins, Math.max(1, Number((wide + all) / (2n * all))));
}
function moments(p, epsilon) {
  const pairs = range(p.features + 2).flatMap((i) =>
    range(p.features + 2 - i).map((j) => [i, i + j])).slice(1);
  const truth = (value, row, draw) => {
    const texts = value.replace(/[()]/g, "").split(",");
    if (texts.length !== p.features + 1) refuse("value");
    const places = texts.map((text, i) => fraction(text, p.bounds[i], p.outside));
    const entries = [[1n, 1n], ...places.map(([n, d]) => [2n * n - d, d])];
    const [i, j] = pairs[row];
    const [n, d] = [entries[i][0] * entries[j][0], entries[i][1] * entries[j][1]];
    return [stepped(i === j ? [n, d] : [n + d, 2n * d], draw)];
  };
  return part(INDEX, pairs.length, 2, answers(epsilon, 1), truth);
}
const perBit = (p, epsilon) => (p.bits > 1 ? epsilon / 2n : epsilon);
function memoisedBitFlip(p, epsilon) {
  const told = keep(perBit(p, exact(p.lifetime_epsilon)), 1n);
  const [again, thresholds] = secondStep(perBit(p, epsilon), told, 1n);
  return [bitsTwice(bitFlip(p, thresholds), told, ONE - again, again)];
}
function bitFlip(p, thresholds) {
  const truth = (value, row) => {
    const [n, d] = fraction(value, p.bounds, p.outside);
    const bucket = Math.min(p.buckets - 1, Number((n * BigInt(p.buckets)) / d));
    const column = (bucket - row + p.buckets) % p.buckets;
    return column < p.bits ? [column] : [];
  };
  return part(BITS, p.buckets, p.bits, thresholds, truth);
}
// Bins of numbers, equal or parts of every doubling, and a tree of them
function exponent(x) {
  const near = Math.floor(Math.log2(x));
  return [near - 1, near, near + 1].findLast((e) => 2 ** e <= x);
}
function doublings({ magnitudes: [low, high], buckets, signed, outside }) {
  const least = exponent(low);
  const most = Math.max(least + 1, exponent(high) + (2 ** exponent(high) < high ? 1 : 0));
  const bins = (most - least) * buckets + 2;
  const magnitude = (size) => {
    if (size < 2 ** least) return 0;
    if (size >= 2 ** most) return bins - 1;
    const e = exponent(size);
    return 1 + (e - least) * buckets + Math.floor(buckets * (size / 2 ** e - 1));
  };
  const bin = (text) => {
    const x = number(text);
    if (outside !== "clip" && (Math.abs(x) >= 2 ** most || (x < 0 && !signed))) refuse("value");
    if (!signed) return x > 0 ? magnitude(x) : 0;
    return bins - 1 + (x < 0 ? -magnitude(-x) : magnitude(x));
  };
  return [signed ? 2 * bins - 1 : bins, bin];
}
function equalBins(p) {
  return [p.buckets, (text) => {
    const [n, d] = fraction(text, p.bounds, p.outside);
    return Math.min(p.buckets - 1, Number((n * BigInt(p.buckets)) / d));
  }];
}
function levels(p, epsilon) {
  const [bins, bin] = p.bounds ? equalBins(p) : doublings(p);
  const rows = range(64).find((k) => k > 0 && p.branching ** k >= bins);
  const thresholds = [keep(epsilon / 4n, 1n), ONE - keep((3n * epsilon) / 4n, 1n)];
  return part(BITS, rows, bins * (p.by ?? [0]).length, thresholds, (value, row) => {
    const width = p.branching ** (rows - 1 - row);
    const [category, number] = p.by ? [place(p.by, value[0]), value[1]] : [0, value];
    return [category * Math.ceil(bins / width) + Math.floor(bin(number) / width)];
  });
}
// Projective geometry: vectors of t numbers below the prime s
const points = (s, t) => range(t).reduce((sum, i) => sum + s ** i, 0);
function vector(point, s, t) {
  const free = range(t).findLast((m) => point >= points(s, m));
  const rest = point - points(s, free);
  const digits = range(free).map((i) => Math.floor(rest / s ** (free - 1 - i)) % s);
  return [...Array(t - 1 - free).fill(0), 1, ...digits];
}
const inverse = (a, s) => range(s).find((b) => (a * b) % s === 1);
function pointOf(numbers, s) {
  const first = numbers.findIndex((n) => n);
  const digits = numbers.slice(first + 1).map((n) => (n * inverse(numbers[first], s)) % s);
  return points(s, digits.length) + digits.reduce((sum, digit) => sum * s + digit, 0);
}
function hyperplane(normal, s) {
  const [solved, t] = [normal.findLastIndex((n) => n), normal.length];
  const completed = (free, product) => {
    const whole = [...free.slice(0, solved), 0, ...free.slice(solved)];
    const left = whole.reduce((sum, n, i) => sum - n * normal[i], product);
    whole[solved] = ((((left % s) + s) % s) * inverse(normal[solved], s)) % s;
    return pointOf(whole, s);
  };
  const own = range(points(s, t - 1)).map((i) => completed(vector(i, s, t - 1), 0));
  const outside = (o) => completed(range(t - 1).map((i) => Math.floor(o / s ** i) % s), 1);
  return Object.assign(own, { outside });
}
function pgr(p, epsilon) {
  const t = [...range(64)].slice(2).find((m) => points(p.field, m) >= p.categories.length);
  const [all, own] = [points(p.field, t), points(p.field, t - 1)];
  const truth = (value) => hyperplane(vector(place(p.categories, value), p.field, t), p.field);
  return part(INDEX, 1, all, answers(epsilon, all - own, own), truth);
}
function hadamard(p, epsilon) {
  const all = 2 ** p.categories.length.toString(2).length;
  const truth = (value) => {
    const r = place(p.categories, value) + 1;
    const free = (n) => ((n & -(r & -r)) << 1) | (n & ((r & -r) - 1));
    const column = (odd) => (n) => free(n) + (r & -r) * Number(parity(BigInt(free(n) & r)) ^ odd);
    return Object.assign(range(all / 2).map(column(0n)), { outside: column(1n) });
  };
  return part(INDEX, 1, all, answers(epsilon, all / 2, all / 2), truth);
}
function subset(p, epsilon) {
  const [d, w] = [p.categories.length, p.size];
  const told = answers(epsilon, d - w, w)[2];
  return { ...choice(SUBSET, p, [told, (BigInt(w) * ONE - told) / BigInt(d - 1)]), size: w };
}
function unary(p, epsilon) {
  const [m, d] = [p.at_most ?? 1, p.categories.length];
  const differing = BigInt(m + Math.min(m, d - m));
  return choice(BITS, p, p.variant === "optimized" ? optimized(epsilon / BigInt(m))
    : answers(epsilon / differing, 1));
}
function privset(p, epsilon) { // a column a category, and a pad for every answer that is missing
  const [d, m, w] = [p.categories.length, p.at_most, p.size];
  const without = binomial(d, w);
  const naming = binomial(d + m, w) - without;
  const told = keep(epsilon, without, naming);
  const one = told * binomial(d + m - 1, w - 1);
  const other = (ONE * BigInt(w) * naming - BigInt(m) * one) / (naming * BigInt(d));
  const truth = (value) => [...places(p, value), ...range(m - value.length).map((i) => d + i)];
  return { ...part(SUBSET, 1, d + m, [one / naming, other, told], truth), size: w };
}
function dummies({ categories, slots, probability, sending }) {
  const [d, chance, sent] = [categories.length, exact(probability), exact(sending)];
  const [hidden, all] = [BigInt(slots) * chance, BigInt(d * (1 + slots)) * UNIT];
  const law = [BigInt(d) * sent + hidden, hidden].map((n) => (ONE * n) / all);
  const draws = (draw, share) => bernoulli(draw, (ONE * share) / UNIT, 1);
  const messages = (draw, value) => { // the columns that a record's messages name
    const own = place(categories, value);
    const columns = [draws(draw, sent) ? own : d];
    for (let i = 1; i <= slots; i += 1) {
      const column = uniformBelow(draw, d);
      columns.push(draws(draw, chance) ? column : d);
    }
    for (let i = slots; i > 0; i -= 1) {
      const other = uniformBelow(draw, i + 1);
      [columns[i], columns[other]] = [columns[other], columns[i]];
    }
    return columns;
  };
  return { ...part(INDEX, 1, d + 1, law), messages };
}
const yesNo = (value) => [[0], []][place(["yes", "no"], value)];
function member(p, i) {
  const [own] = MECHANISMS[p.mechanism][1](p, exact(p.epsilon ?? 0));
  return { ...own, truth: (values, row) => own.truth(values[i], row) };
}
const MECHANISMS = {
  coin: [1, (p) => [part(BITS, 1, 1, coin(exact(p.alpha), exact(p.beta)), yesNo)]],
  rr: [2, (p, epsilon) => [choice(INDEX, p, answers(epsilon, p.categories.length - 1))]],
  cms: [3, (p, epsilon) => [sketch(BITS, p, symmetric(epsilon))]],
  unary: [4, (p, epsilon) => [unary(p, epsilon)]],
  rappor: [5, (p) => [rappor(p)]],
  hcms: [6, (p, epsilon) => [sketch(SIGN, p, [answers(epsilon, 1)[0], ONE / 2n])]],
  sfp: [7, sfp],
  "rappor-ngrams": [20, ngrams],
  "rappor-ngram-pairs": [21, (p, epsilon) => [filters(p, epsilon)]],
  "sfp-fragments": [9, (p, epsilon) => [fragments(p, epsilon)]],
  joint: [32, (p) => p.of.map(member)],
  "local-hashing": [10, (p, epsilon) => [sketch(INDEX, { ...p, width: p.buckets },
    answers(epsilon, p.buckets - 1))]],
  prefix: [17, (p, epsilon) => [prefix(p, epsilon)]],
  pgr: [11, (p, epsilon) => [pgr(p, epsilon)]],
  hadamard: [23, (p, epsilon) => [hadamard(p, epsilon)]],
  "one-bit-mean": [12, (p, epsilon) => [numeric(p, epsilon, 2, 1)]],
  piecewise: [13, (p, epsilon) => [windowed(p, epsilon)]],
  moments: [14, (p, epsilon) => [moments(p, epsilon)]],
  "memoised-rr": [18, (p, epsilon) => memoised(p, epsilon, p.categories.length,
    (thresholds) => choice(INDEX, p, thresholds))],
  "memoised-hashing": [19, (p, epsilon) => memoised(p, epsilon, p.buckets,
    (thresholds) => sketch(INDEX, { ...p, width: p.buckets }, thresholds))],
  privset: [24, (p, epsilon) => [privset(p, epsilon)]],
  subset: [15, (p, epsilon) => [subset(p, epsilon)]],
  "bit-flip": [16, (p, epsilon) => [bitFlip(p, answers(perBit(p, epsilon), 1))]],
  "memoised-bit-flip": [22, memoisedBitFlip],
  "hierarchical-histogram": [25, (p, epsilon) => [levels(p, epsilon)]],
  dummies: [26, (p) => [dummies(p)]],
};
// Section 8: the fingerprint, of the one form of JSON
const DOUBLES = ["alpha", "beta", "epsilon", "fragment_epsilon", "lifetime_epsilon", "f", "p", "q",
  "probability", "sending"];
const double = (x) => (x > 0 && x < 0.0001 ? x.toExponential().replace(/-(.)$/, "-0$1")
  : `${x}`.replace(/^-?\d+$/, "$&.0"));
const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
const ascii = (value) => JSON.stringify(value).replace(/[^ -~]/g, escaped);
function oneForm(p) {
  const pairs = (x) => (Array.isArray(x) ? `[${x.map(pairs)}]` : double(x));
  const listed = (parts) => `[${parts.map(oneForm)}]`;
  const nested = { bounds: pairs, magnitudes: pairs, of: listed };
  const form = (key) => (nested[key] ?? (DOUBLES.includes(key) ? double : ascii))(p[key]);
  return `{${Object.keys(p).sort().map((key) => `"${key}":${form(key)}`)}}`;
}
const fingerprint = (p) => blake2b(Buffer.from(oneForm(p)), 8, "ldp mechanism v1");
// Sections 6 and 7: reports
function build(given) {
  const [id, parts] = MECHANISMS[given.mechanism] ?? refuse(`unknown mechanism ${given.mechanism}`);
  const built = parts(given, exact(given.epsilon ?? 0));
  return { parts: built, limits: built.flatMap((own) => own.limits),
    head: Buffer.concat([Buffer.from([1, id]), fingerprint(given)]) };
}
function encode({ parts, limits, head }, draw, value) {
  const columns = parts[0].messages?.(draw, value) ?? [];
  if (columns.length)
    return Buffer.concat(columns.flatMap((n) => [head, toBytes(n, size(limits[2]))]));
  const numbers = parts.flatMap((own) => {
    const [row, inner] = [own.row ?? uniformBelow(draw, own.rows), Number(own.limits[1])];
    const truth = own.truth(value, row, draw);
    return [Math.floor(row / inner), row % inner, own.payload(own, draw, truth)];
  });
  return Buffer.concat([head, ...numbers.map((n, i) => toBytes(n, size(limits[i])))]);
}
function parse({ parts, limits, head }, report) { // of each part row and payload, or null
  const ends = limits.reduce((list, limit) => [...list, list.at(-1) + size(limit)], [10]);
  if (report.length !== ends.at(-1) || !head.equals(report.subarray(0, 10))) return null;
  const n = limits.map((_, i) => integer(report.subarray(ends[i], ends[i + 1])));
  if (n.some((number, i) => number >= limits[i])) return null;
  if (parts.some(({ size: w }, i) => w && ones(n[3 * i + 2]) !== w)) return null;
  return parts.map((own, i) => [n[3 * i] * own.limits[1] + n[3 * i + 1], n[3 * i + 2]]);
}
// Section 12: the vectors; a check gives pairs: what this client says, what the vectors say
const shown = (x) => JSON.stringify(Buffer.isBuffer(x) ? x.toString("hex") : x,
  (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner));
function table({ rows, columns, vote }, named) {
  const own = range(rows).map((row) => named.filter((pair) => pair[0] === BigInt(row)));
  const sum = (pairs, column) => pairs.reduce((total, [, n]) => total + vote(n, BigInt(column)), 0);
  return { counts: own.map((pairs) => range(columns).map((column) => sum(pairs, column))),
    reports: own.map((pairs) => pairs.length) };
}
const encodeAll = (mechanism, { seed_hex, reports }, draw = seededBits(seed_hex)) =>
  reports.map(([value, said]) => [encode(mechanism, draw, value), said]);
function checkExample({ memoised = [], ...example }) {
  const mechanism = build(example.parameters);
  const { parts, head } = mechanism;
  const read = (report) => parse(mechanism, hex(report));
  const messages = 1 + (example.parameters.slots ?? 0); // each a report, of equally many bytes
  const split = (said) => said.match(new RegExp(`.{${said.length / messages}}`, "g"));
  const good = example.reports.flatMap(([, said]) => split(said))
    .map((said) => read(said) ?? refuse(`refused a good ${said}`));
  const devices = ["keyed", undefined].includes(example.parameters.permanent) ? memoised : [];
  if (devices !== memoised && memoised.length) console.log("note: no memoised rappor-cpp here");
  return [
    [head.subarray(2), example.fingerprint],
    [parts.map(({ touched, untouched }) => ({ touched, untouched })), example.thresholds],
    ...encodeAll(mechanism, example),
    [parts.map((own, i) => table(own, good.map((report) => report[i]))), example.tables],
    ...Object.values(example.bad_reports).map((report) => [read(report), null]),
    ...devices.flatMap((device) => encodeAll(memoising(mechanism, device), device)),
  ];
}
const CHECKS = {
  seeded_bits: ({ seed_hex, draws }, draw = seededBits(seed_hex)) =>
    draws.map(([n, said]) => [draw(n), BigInt(said)]),
  bernoulli: (list) => list.map((t) => [bernoulli(seededBits(t.seed_hex), BigInt(t.threshold),
    t.lanes, BigInt(t.chosen), BigInt(t.chosen_threshold)), BigInt(t.word)]),
  uniform_below: (list) => list.map((t) =>
    [uniformBelow(seededBits(t.seed_hex), t.bound), t.number]),
  keyed_bits: (list) => list.map(([k, m, said]) => [keyedBits(hex(k), hex(m))(4000), BigInt(said)]),
  fingerprints: (list) => list.map(([parameters, said]) => [fingerprint(parameters), said]),
  points: (list) => list.map(([value, said]) => [point(valueBytes(value)), said]),
  polynomial_rows: ({ row_digests, columns, ...p }) => [
    ...row_digests.map(([row, said]) => [rowDigest(p.seed, row), said]),
    ...columns.map(([value, row, said]) => [sketchColumn(p, valueBytes(value), row), said])],
  derived_seed: ([names, said]) => [[derivedSeed(names), said]],
  examples: (list) => list.flatMap(checkExample),
};
function check([key, content]) {
  const pairs = (CHECKS[key] ?? refuse(`unknown key ${key}`))(content);
  for (const [here, said] of pairs.map((pair) => pair.map(shown)))
    if (here !== said) refuse(`${key}: ${here.slice(0, 80)}, the vectors say ${said.slice(0, 80)}`);
  return `${key} ${pairs.length}`;
}
let file = "usage: node client.mjs FOLDER";
try {
  const names = readdirSync(process.argv[2] ?? "").filter((name) => name.endsWith(".json")).sort();
  if (names.length === 0) refuse("no vectors");
  for (const name of names) {
    file = `${process.argv[2]}/${name}`;
    const checked = Object.entries(JSON.parse(readFileSync(file, "utf8"))).map(check);
    console.log(`ok ${name}: ${checked.join(", ")}`);
  }
} catch (error) {
  console.error(`${file}: ${error.message}`);
  process.exitCode = 1;
}
