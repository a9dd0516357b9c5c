"""What PyTorch's Conv2d takes on a card, and how far the first image is from fp64: torch.txt."""
import torch

# images, channels, filters, side, kernel, stride, padding, dilation
SHAPES = [(16, 64, 128, 256, 3, 1, 1, 1), (16, 64, 128, 256, 3, 1, 0, 1), (16, 128, 256, 64, 3, 2, 1, 1),
          (8, 96, 100, 57, 3, 1, 2, 2), (16, 32, 64, 128, 5, 1, 2, 1), (16, 256, 512, 32, 3, 1, 1, 1)]
flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
for shape in SHAPES:
    n, ci, co, h, k, s, p, d = shape
    found = []
    for dtype in (torch.float32, torch.float16):
        x = torch.randn(n, ci, h, h, device="cuda", dtype=dtype)
        m = torch.nn.Conv2d(ci, co, k, s, p, d).cuda().to(dtype)
        with torch.no_grad():
            for _ in range(3):
                m(x)
            times = []
            for _ in range(15):
                flush.fill_(1)
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                y = m(x)
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end))
            exact = torch.nn.functional.conv2d(x[:1].double(), m.weight.double(), m.bias.double(), s, p, d)
            error = ((y[:1].double() - exact).abs().max() / exact.square().mean().sqrt()).item()
        found.append("%s %.1f us err %.2e" % (str(dtype)[6:], sorted(times)[7] * 1e3, error))
    print(shape, " | ".join(found), flush=True)
